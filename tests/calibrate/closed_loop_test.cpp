// How does `lockstep closed-loop` end if it cannot continue?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "calibrate/command.hpp"
#include "core/output.hpp"
#include "imports/profile_folder.hpp"
#include "workload/model.hpp"
#include "workload/step.hpp"

namespace lockstep::closed_loop_test {
namespace {

using testing::HasSubstr;

const std::string measuring_half = "export LOCKSTEP_CALIBRATE=" LOCKSTEP_CALIBRATE ";";

std::vector<pid_t> children(pid_t parent) {
  std::istringstream in(text_of(fmt::format("/proc/{0}/task/{0}/children", parent)));
  std::vector<pid_t> all;
  for (pid_t pid = 0; in >> pid;) {
    all.push_back(pid);
    const std::vector<pid_t> further = children(pid);
    all.insert(all.end(), further.begin(), further.end());
  }
  return all;
}

// The signal reaches one process only, as from `kill` or a batch system.
TEST(ClosedLoop, EndsOnOneSignalAndSaysWhereTheProfileIs) {
  Command command("closed-loop --model lenet5 -o kept", measuring_half, "> out 2> err",
                  LOCKSTEP_PROGRAM);
  // The processes are the program, its measuring half and two ranks.
  ASSERT_TRUE(Command::until([&] { return children(command.pid()).size() == 3; })) << command.err();
  ASSERT_EQ(command.ranks_under_way(2, ".layers").size(), 1u) << command.err();
  const std::vector<pid_t> below = children(command.pid());
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130) << command.err();
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.err(), HasSubstr("interrupted; the results so far are in kept"));
  EXPECT_THAT(text_of(command.path() / "kept" / "profile.yaml"), HasSubstr("no, interrupted"));
  EXPECT_EQ(command.out(), "");
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t pid : below) EXPECT_NE(::kill(pid, 0), 0) << pid;
}

TEST(ClosedLoop, WithoutTheMeasuringHalfSaysWhatIsMissing) {
  Command command("closed-loop --model lenet5",
                  "unset LOCKSTEP_CALIBRATE; cp " LOCKSTEP_PROGRAM " alone &&", "> out 2> err",
                  "./alone");
  EXPECT_EQ(command.wait(), 2) << command.err();
  EXPECT_THAT(command.err(), HasSubstr("the measuring half is not built"));
  EXPECT_THAT(command.err(), HasSubstr("-DLOCKSTEP_TORCH=ON"));
}

struct Refused {
  const char* arguments;
  const char* reason;
};

TEST(ClosedLoop, SaysWhatIsWrongBeforeAnythingStarts) {
  for (const Refused& row : std::vector<Refused>{
           {"--network 1Gbitt", "allowed: loopback, or a rate such as 1Gbit"},
           {"--repetitions 0", "--repetitions"},
           {"--slow-rank 5:2", "a rank from 0 to 1"},
           {"--slow-rank 1:2x", "'1:2x' is not possible"},
           {"--slow-rank 1:nan", "a factor of at least 1 and at most 1000"},
           {"--slow-rank 99999999999:2", "a rank from 0 to 1"},
           {"--slow-rank 0:1e99999", "'0:1e99999' is not possible"},
           {"--layers-time 0s", "--layers-time"},
           {"--collectives-time 5", "--collectives-time"},
           {"--strategies foo", "allowed: ddp-25MiB"},
           {"--strategies fsdp,fsdp", "'fsdp' stands there twice"},
           {"--max-error lots", "--max-error"},
           {"--every 0", "--every"},
           {"--participants 101%", "more than 0%, 100% at most"},
           {"--sizes 4KiB..1KiB", "the first size is larger than the last"},
           {"--model lenet6", "did you mean 'lenet5'?"},
           {"--keep-profile", "needs --output"},
           {"--keep-profile -o none", "there is no profile.yaml in this folder"},
       }) {
    Command command(std::string("closed-loop ") + row.arguments, measuring_half, "> out 2> err",
                    LOCKSTEP_PROGRAM);
    EXPECT_EQ(command.wait(), 2) << row.arguments << "\n" << command.err();
    EXPECT_THAT(command.err(), HasSubstr(row.reason)) << row.arguments;
    EXPECT_EQ(command.out(), "");
    EXPECT_FALSE(std::filesystem::exists(command.path() / "none"));
  }
}

TEST(ClosedLoop, ThatCannotWriteSaysSoAtOnce) {
  Command command("closed-loop --model lenet5 -o out/folder", measuring_half, "> out 2> err",
                  LOCKSTEP_PROGRAM);  // out is a file
  EXPECT_EQ(command.wait(), exit_not_written);
  EXPECT_EQ(command.err(), "lockstep: cannot write out/folder: Not a directory\n");
}

TEST(ClosedLoop, WhatTheMeasuringHalfRefusesIsWrongInput) {
  Command command("closed-loop --model lenet5",
                  "printf '#!/bin/sh\\nexit 2\\n' > refuse && chmod +x refuse && "
                  "export LOCKSTEP_CALIBRATE=$PWD/refuse;",
                  "> out 2> err", LOCKSTEP_PROGRAM);
  EXPECT_EQ(command.wait(), 2) << command.err();
  EXPECT_THAT(command.err(), HasSubstr("cannot be measured: calibrate --models lenet5"));
}

Profile lenet_profile(double step_sigma) {
  StepOptions one;
  one.samples = 8;
  const TrainingStep step = build_step(*load_model("lenet5"), one);
  ProfileBatch batch;
  batch.samples = step.samples;
  batch.step_sigma = step_sigma;
  for (const Layer& layer : step.layers) batch.layers.push_back({layer.name, 1e-3, 1e-3});
  Profile profile;
  profile.device = "cpu-core";
  profile.models.push_back({step.model, step.precision, step.input_bytes / 8, {batch}});
  return profile;
}

// Runs the loop until training, which fails. The results of the steps before it are in the folder.
std::filesystem::path loop_until_training(Command& command, const Profile& profile) {
  save_profile(command.path() / "kept", profile);
  EXPECT_EQ(command.wait(), 1) << command.err();
  return command.path() / "kept";
}
constexpr const char* when_there_is_a_profile =
    "until test -f kept/profile.yaml; do sleep 0.01; done; export LOCKSTEP_CALIBRATE=/bin/false;";

std::string scenario_with(const Profile& profile, const std::string& more = "") {
  Command command("closed-loop --model lenet5 --batch 8 --keep-profile -o kept " + more,
                  when_there_is_a_profile, "> out 2> err", LOCKSTEP_PROGRAM);
  return text_of(loop_until_training(command, profile) / "scenario.yaml");
}

TEST(ClosedLoop, PredictsWithTheJitterThatWasMeasured) {
  EXPECT_THAT(scenario_with(lenet_profile(0.0625)), HasSubstr("sigma: 6.25%"));
  EXPECT_THAT(scenario_with(lenet_profile(0)),
              testing::AllOf(HasSubstr("closed loop"), testing::Not(HasSubstr("per_step"))));
}

TEST(ClosedLoop, PredictsWhatTheRealHooksDo) {
  EXPECT_THAT(scenario_with(lenet_profile(0)),
              testing::AllOf(HasSubstr("label: ddp-top-k"), HasSubstr("fraction: 1%"),
                             HasSubstr("label: ddp-powersgd"), HasSubstr("gram-schmidt")));
}

TEST(ClosedLoop, PredictsHowRanksThatStepByThemselvesMeet) {
  EXPECT_THAT(scenario_with(lenet_profile(0), "--every 7 --participants 50%"),
              testing::AllOf(HasSubstr("label: diloco"), HasSubstr("every: 7"),
                             HasSubstr("nesterov"), HasSubstr("label: fedavg"),
                             HasSubstr("exchange_every: 7"), HasSubstr("participants: 0.5")));
}

TEST(ClosedLoop, PredictsWithTheStepsThatWereMeasuredThemselves) {
  Profile profile = lenet_profile(0.0625);
  profile.models[0].batches[0].step_factors = {0.9, 1, 1, 1.1, 1.5};
  Command command("closed-loop --model lenet5 --batch 8 --keep-profile -o kept",
                  when_there_is_a_profile, "> out 2> err", LOCKSTEP_PROGRAM);
  const auto folder = loop_until_training(command, profile);
  EXPECT_THAT(text_of(folder / "scenario.yaml"), testing::AllOf(HasSubstr("file: step_factors.txt"),
                                                                testing::Not(HasSubstr("sigma"))));
  EXPECT_EQ(text_of(folder / "step_factors.txt"), "0.9\n1\n1\n1.1\n1.5\n");
}

// The folder may be moved, or copied and changed, so its files refer to each other by relative
// paths.
TEST(ClosedLoop, NamesItsFilesByTheirPlaceInTheFolder) {
  EXPECT_THAT(scenario_with(lenet_profile(0)),
              testing::AllOf(HasSubstr("platform: platform.yaml"),
                             HasSubstr("profile: profile.yaml"), HasSubstr("model: lenet5")));
}

TEST(ClosedLoop, SaysFirstHowLongItTakesAndThatRanksShareACore) {
  const int core = pinned_ranks(1, [](int) { return std::vector<std::string>{}; })[0].core;
  Command command(
      "closed-loop --quick",
      fmt::format("taskset -cp {} $$ > out; export LOCKSTEP_CALIBRATE=/bin/false;", core),
      "> out 2> err", LOCKSTEP_PROGRAM);
  EXPECT_EQ(command.wait(), 1);
  EXPECT_THAT(command.err(), testing::StartsWith("warning: 2 ranks share 1 core: "));
  EXPECT_THAT(command.err(), HasSubstr("\nthis takes about "));
}

// LibTorch has scaled_dot_product_attention from version 2 on.
TEST(ClosedLoop, PredictsTheAttentionOfTheLibraryThatMeasured) {
  Profile profile = lenet_profile(0);
  for (const auto& [version, attention] : std::map<std::string, std::string>{
           {"1.13.1", "attention: plain"}, {"2.11.0", "attention: fused"}}) {
    profile.versions = {{"libtorch", version}};
    EXPECT_THAT(scenario_with(profile), HasSubstr(attention)) << version;
  }
}

// A shell script that replaces the measuring half. It writes the words that `note` selects to
// `calls`, and for `train` prints the output of an earlier training. It is created once the folder
// has a profile.
std::string noting_half(const std::string& note, const Command& train) {
  return fmt::format(
      "until test -f kept/profile.yaml; do sleep 0.01; done;"
      "printf '#!/bin/sh\n{0} >> {1}/calls\ntest $1 != train || cat {2}/out\n' > half;"
      "chmod +x half; export LOCKSTEP_CALIBRATE=$PWD/half;",
      note, "$PWD", train.path().string());
}

// The speed of a shared machine changes within minutes, so measurements are repeated close to each
// run.
TEST(ClosedLoop, MeasuresCollectivesForEveryRepetitionAndLayersBeforeEveryRun) {
  Command train("train --model lenet5 --batch 8 --steps 2 --json");
  ASSERT_EQ(train.wait(), 0) << train.err();
  Command command(
      "closed-loop --model lenet5 --batch 8 -o kept --repetitions 2 --steps 2 "
      "--strategies ddp-25MiB,ddp-4MiB",
      noting_half("test $2 = collectives && shift\necho $1", train), "> out 2> err",
      LOCKSTEP_PROGRAM);
  save_profile(command.path() / "kept", lenet_profile(0));
  EXPECT_EQ(command.wait(), 0) << command.err();
  const std::string repetition = "collectives\ncalibrate\ntrain\ncalibrate\ntrain\n";
  EXPECT_EQ(text_of(command.path() / "calls"), "calibrate\n" + repetition + repetition);
}

// The layers are measured as the ranks of each run compute: with a pause before each step for
// asynchronous workers only. The first measurement has the pause of the first run.
TEST(ClosedLoop, PausesBeforeTheStepsOfServersWorkersOnly) {
  Command train("train --model lenet5 --batch 8 --steps 2 --strategy ps-async --json");
  ASSERT_EQ(train.wait(), 0) << train.err();
  Command command(
      "closed-loop --model lenet5 --batch 8 -o kept --repetitions 1 --steps 2 "
      "--strategies fsdp,ps-async",
      noting_half("echo $*", train), "> out 2> err", LOCKSTEP_PROGRAM);
  save_profile(command.path() / "kept", lenet_profile(0));
  EXPECT_EQ(command.wait(), 0) << command.err();
  const std::string calls = text_of(command.path() / "calls");
  std::vector<std::string> pauses;
  for (std::size_t at = 0; (at = calls.find("--pause ", at)) != std::string::npos; ++at) {
    pauses.push_back(calls.substr(at + 8, calls.find(" s ", at) - at - 8));
  }
  EXPECT_EQ(pauses, (std::vector<std::string>{"0", "0", "0.1"}));
  // Only a server's messages are as large as all parameters.
  EXPECT_THAT(calls, HasSubstr("--collectives send_recv --sizes 16 KiB,246824 B,1 MiB"));
  EXPECT_THAT(calls, HasSubstr("broadcast --sizes 16 KiB,1 MiB"));
}

// Buffers and first buckets are smaller than the usual sizes, and a curve is unknown below its
// first point, so a small size is always measured.
TEST(ClosedLoop, AlwaysMeasuresASmallCollectiveAndTheMessageOfAServer) {
  // LeNet-5 has 61706 parameters.
  for (const auto& [asked, measured] : std::map<std::string, std::string>{
           {"1MiB,8MiB --strategies fsdp", "16 KiB,1 MiB,8 MiB"},
           {"4KiB..8KiB --strategies fsdp", "4 KiB,8 KiB"},
           {"1MiB --strategies ps-sync", "16 KiB,246824 B,1 MiB"},
           {"4KiB,246824B --strategies fsdp,ps-ssp", "4 KiB,246824 B"}}) {
    Command command("closed-loop --model lenet5 -o kept --sizes " + asked,
                    "printf '#!/bin/sh\\necho \"$*\" >> calls\\n' > half; chmod +x half;"
                    "export LOCKSTEP_CALIBRATE=$PWD/half;",
                    "> out 2> err", LOCKSTEP_PROGRAM);
    EXPECT_EQ(command.wait(), 2) << command.err();  // the script writes no profile
    EXPECT_THAT(text_of(command.path() / "calls"), HasSubstr("--sizes " + measured + "\n"));
  }
}

TEST(ClosedLoop, MeasuresWhatItsStrategiesWaitForAndWhen) {
  const std::string others = "all_reduce,all_gather,reduce_scatter,broadcast";
  for (const auto& [strategies, collectives, pause] :
       std::initializer_list<std::array<std::string, 3>>{
           {"ps-async,ps-sync", "send_recv ", "0.1 s"},
           {"ps-async,fsdp", others + " ", "0.1 s"},
           {"fedavg", "send_recv ", "0 s"},
           {"fsdp", others + ",send_recv ", "0 s"}}) {
    Command command("closed-loop --model lenet5 -o kept --strategies " + strategies,
                    "printf '#!/bin/sh\\necho \"$*\" >> calls\\n' > half; chmod +x half;"
                    "export LOCKSTEP_CALIBRATE=$PWD/half;",
                    "> out 2> err", LOCKSTEP_PROGRAM);
    EXPECT_EQ(command.wait(), 2) << command.err();  // the script writes no profile
    EXPECT_THAT(text_of(command.path() / "calls"), HasSubstr("--collectives " + collectives));
    EXPECT_THAT(text_of(command.path() / "calls"), HasSubstr("--pause " + pause + " "));
  }
}

TEST(ClosedLoop, ThatFailsLeavesNoFolderOfItsOwn) {
  Command command("closed-loop --model lenet5", "export LOCKSTEP_CALIBRATE=/bin/false;",
                  "> out 2> err", LOCKSTEP_PROGRAM);
  EXPECT_EQ(command.wait(), 1);
  EXPECT_THAT(command.err(), HasSubstr("ended with 1"));
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(command.path())) {
    files += entry.is_regular_file() ? 1 : 10;
  }
  EXPECT_EQ(files, 2u);  // the files out and err
}

}  // namespace
}  // namespace lockstep::closed_loop_test
