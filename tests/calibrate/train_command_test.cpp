// Does `lockstep-calibrate train` do what its options say, from the command line to the report?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "calibrate/command.hpp"
#include "launch/network.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

nlohmann::json trained(const std::string& options, const std::string& model = "lenet5") {
  Command command("train --json --warm-up 1 --model " + model + " " + options);
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_FALSE(command.run_folder_left());
  const auto record = nlohmann::json::parse(command.out(), nullptr, false);
  return record.is_discarded() ? nlohmann::json::object() : record;
}

nlohmann::json run_of(const nlohmann::json& record) {
  return record.value("runs", nlohmann::json::array({nlohmann::json::object()})).at(0);
}

TEST(Train, OverALinkTakesAsLongAsTheLinkNeeds) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  // LeNet-5's gradients of 247 kB are at least 4 ms of 500 Mbit/s in every step of two ranks;
  // ten steps are more than the token bucket holds.
  const auto record = trained("--batch 2 --steps 10 --network 500Mbit");
  EXPECT_THAT(record.value("platform", ""), HasSubstr("500Mbit"));
  const auto run = run_of(record);
  ASSERT_TRUE(run.contains("step_seconds")) << record;
  EXPECT_GT(run["step_seconds"].get<double>(), 0.8 * 61706 * 4 / 62.5e6);
  EXPECT_LT(run["step_seconds"].get<double>(), 1);
}

TEST(Train, CtrlCWhileTheNetworkIsMadeOrUsedIsNoFault) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const char* verb : {"train --model lenet5 --steps 1000000", "collectives"}) {
    Command command(std::string(verb) + " --network 1Gbit");
    const auto mine = [&] {
      int count = 0;
      std::error_code none;
      for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
        count += entry.path().filename().string().starts_with(
            fmt::format("lockstep-{}-", command.pid()));
      }
      return count;
    };
    ASSERT_TRUE(Command::until([&] { return mine() > 0; })) << command.err();
    ::kill(command.pid(), SIGINT);
    EXPECT_EQ(command.wait(), 130) << verb;
    EXPECT_THAT(command.err(), HasSubstr("interrupted")) << verb;
    EXPECT_EQ(mine(), 0) << verb;
    EXPECT_FALSE(command.run_folder_left());
  }
}

// The buckets are the gradients then, and at the peak there is no copy of some of them.
TEST(Train, GradientsThatLieInBucketsNeedLessMemory) {
  const std::string options = "--batch 1 --steps 3";
  const auto plain = run_of(trained(options));
  const auto view = run_of(trained(options + " --gradient-as-bucket-view"));
  ASSERT_TRUE(plain.contains("memory") && view.contains("memory"));
  EXPECT_EQ(view["each_loss"], plain["each_loss"]);
  EXPECT_LT(view["memory"]["allocated_bytes"].get<double>(),
            plain["memory"]["allocated_bytes"].get<double>() - 0.2 * 61706 * 4);
}

TEST(Train, WithAdamIsAnotherTrainingThanWithSgd) {
  const std::string options = "--batch 4 --steps 5 --learning-rate 0.002 ";
  const auto sgd = run_of(trained(options + "--optimizer sgd"));
  const auto adam = run_of(trained(options + "--optimizer adam"));
  ASSERT_EQ(sgd["each_loss"].size(), 5u);
  ASSERT_EQ(adam["each_loss"].size(), 5u);
  EXPECT_NE(adam["each_loss"], sgd["each_loss"]);
  EXPECT_LT(adam["each_loss"][4].get<double>(), adam["each_loss"][0].get<double>());
  // Two moments for every parameter instead of one.
  EXPECT_GT(adam["memory"]["allocated_bytes"].get<double>(),
            sgd["memory"]["allocated_bytes"].get<double>() + 0.9 * 61706 * 4);
}

TEST(Train, CsvIsOneLineUnderItsHeader) {
  Command command("train --csv --model lenet5 --batch 2 --steps 2 --warm-up 1");
  ASSERT_EQ(command.wait(), 0) << command.err();
  const std::string out = command.out();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
  EXPECT_THAT(out, testing::StartsWith("scenario,model,platform,"));
  EXPECT_THAT(out.substr(0, out.find('\n')), HasSubstr(",step_s,"));
  EXPECT_THAT(out.substr(out.find('\n')),
              HasSubstr("real training of lenet5 with ddp,lenet5,\"2 processes on this machine's "
                        "CPU, loopback\",fp32,ddp,2,"));
}

// The mean of Exp(3) is 3: steps take four times as long, by sleeping, and some hardly longer. Each
// run is compared with its own fastest step, so that another program beside one of them does not
// count.
TEST(Train, JitterTakesTime) {
  const std::string options = "--batch 64 --steps 30 --ranks 1 ";
  const auto steady = run_of(trained(options));
  const auto shaken = run_of(trained(options + "--jitter 300%"));
  const auto mean_over_fastest = [](const nlohmann::json& run) {
    const auto seconds = run.value("each_step_seconds", std::vector<double>{});
    EXPECT_EQ(seconds.size(), 30u);
    return seconds.empty() ? 0
                           : std::accumulate(seconds.begin(), seconds.end(), 0.0) / 30 /
                                 *std::min_element(seconds.begin(), seconds.end());
  };
  EXPECT_EQ(steady["each_loss"], shaken["each_loss"]);
  EXPECT_GT(mean_over_fastest(shaken), 1.5 * mean_over_fastest(steady));
}

}  // namespace
}  // namespace lockstep
