// Does `lockstep-calibrate train` follow its options, from the command line to the report?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibrate/command.hpp"
#include "calibrate/trained.hpp"
#include "launch/network.hpp"

namespace lockstep::train_command_test {
namespace {

using testing::HasSubstr;

TEST(Train, CtrlCWhileTheNetworkIsMadeOrUsedIsNoFault) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const char* verb : {"train --model lenet5 --steps 1000000", "calibrate collectives"}) {
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

// Real processes have real delays. A replay in the order in which the server applied their pushes
// must give every loss bit for bit.
TEST(Train, ReplayedInItsOwnOrderLearnsTheSame) {
  for (const char* strategy : {"ps-sync", "ps-async"}) {
    const auto run =
        run_of(trained("--data synthetic --batch 16 --steps 40 --replay --slow-rank 1:3 "
                       "--strategy " +
                       std::string(strategy)));
    ASSERT_TRUE(run.contains("notes")) << strategy;
    ASSERT_EQ(run["notes"].size(), 1u) << strategy;
    EXPECT_THAT(run["notes"][0].get<std::string>(), HasSubstr("every loss within 0.0e+00"))
        << strategy;
    // All losses differ, so updates took place. With so few steps in a random order, the loss need
    // not fall.
    const auto losses = run["each_loss"].get<std::vector<double>>();
    EXPECT_GE(losses.size(), 40u) << strategy;
    EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), losses.size()) << strategy;
  }
}

// LibTorch's reducer with its own fp16 hook, and with top-k and PowerSGD over Gloo. The sum of two
// ranks does not depend on their order; only the division of fp16 values before the sum may round
// differently.
TEST(Train, DdpWithAHookLearnsWhatItsReplayDoes) {
  for (const char* hook : {"none", "fp16-compress", "top-k", "top-k --hook-fraction 30%",
                           "powersgd", "powersgd --hook-rank 3"}) {
    const auto run = run_of(trained("--data synthetic --batch 16 --steps 40 --replay --comm-hook " +
                                    std::string(hook)));
    const std::string note = run.at("notes").at(0).get<std::string>();
    const std::string mark = "every loss within ";
    EXPECT_LT(std::stod(note.substr(note.find(mark) + mark.size())), 1e-5) << hook << note;
  }
}

// Real ranks make local steps, one rank being slow. The replay may differ by rounding, because it
// adds differences where ranks average.
TEST(Train, LocalStepsLearnWhatTheirReplayDoes) {
  for (const char* strategy :
       {"diloco --every 5", "diloco --every 3 --outer-rate 0.5 --optimizer adamw", "fedavg",
        "fedavg --ranks 3 --participants 67% --every 2"}) {
    const auto run =
        run_of(trained("--data synthetic --batch 16 --steps 30 --replay "
                       "--slow-rank 1:2 --strategy " +
                       std::string(strategy)));
    const std::string note = run.at("notes").at(0).get<std::string>();
    const std::string mark = "every loss within ";
    EXPECT_LT(std::stod(note.substr(note.find(mark) + mark.size())), 1e-5) << strategy << note;
  }
}

TEST(Train, ReplayNeedsAnOrderAndImages) {
  for (const auto& [options, what] :
       {std::pair("--comm-hook topk", "did you mean 'top-k'?"),
        std::pair("--comm-hook top-k --strategy fsdp", "--comm-hook: is DDP's"),
        std::pair("--hook-fraction 0%", "--hook-fraction: '0%' is not possible"),
        std::pair("--hook-fraction 101%", "--hook-fraction: '101%' is not possible"),
        std::pair("--data synthetic --comm-hook top-k --first-bucket 100KiB", "in one bucket"),
        std::pair("--data synthetic --comm-hook powersgd --first-bucket 100KiB", "in one bucket"),
        std::pair("--strategy fsdp --data synthetic", "repeats the updates of whole models"),
        std::pair("--strategy ps-async", "needs images")}) {
    Command command(std::string("train --model lenet5 --replay ") + options);
    EXPECT_EQ(command.wait(), 2);
    EXPECT_THAT(command.err(), HasSubstr(what));
  }
}

// With views the gradients lie in the buckets, so at the peak no gradient has a second copy.
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
  // Adam has two moments for every parameter instead of one.
  EXPECT_GT(adam["memory"]["allocated_bytes"].get<double>(),
            sgd["memory"]["allocated_bytes"].get<double>() + 0.9 * 61706 * 4);
}

TEST(Train, EveryOptimizerLearns) {
  for (const char* chosen :
       {"--optimizer rmsprop --learning-rate 0.0005 --momentum 0",
        "--optimizer lion --learning-rate 0.0003", "--optimizer lamb --learning-rate 0.01",
        "--optimizer muon --learning-rate 0.002"}) {
    const auto run = run_of(trained(std::string("--batch 4 --steps 5 ") + chosen));
    ASSERT_EQ(run["each_loss"].size(), 5u) << chosen;
    EXPECT_LT(run["each_loss"][4].get<double>(), run["each_loss"][0].get<double>()) << chosen;
  }
}

TEST(Train, CsvIsOneLineUnderItsHeader) {
  Command command("train --csv --model lenet5 --batch 2 --steps 2 --warm-up 1");
  ASSERT_EQ(command.wait(), 0) << command.err();
  const std::string out = command.out();
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
  EXPECT_THAT(out, testing::StartsWith("scenario,model,parameters,sequence,image,platform,"));
  EXPECT_THAT(out.substr(0, out.find('\n')), HasSubstr(",step_s,"));
  EXPECT_THAT(
      out.substr(out.find('\n')),
      HasSubstr("real training of lenet5 with ddp,lenet5,,,,\"2 processes on this machine's "
                "CPU, loopback\",fp32,ddp,2,"));
}

}  // namespace
}  // namespace lockstep::train_command_test
