// How do `calibrate` and `train` end if something goes wrong?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "calibrate/command.hpp"
#include "core/output.hpp"
#include "costs/profile.hpp"
#include "imports/profile_folder.hpp"

namespace lockstep::bad_situations_test {
namespace {

using testing::HasSubstr;
using testing::Not;

// A command must end within this number of seconds: SIGTERM, two seconds of grace, SIGKILL, and
// some time for a busy machine.
constexpr double soon = 10;

void expect_nothing_left(const Command& command, const std::vector<pid_t>& ranks) {
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0) << "rank " << rank << " lives";
}

class EveryStrategy : public testing::TestWithParam<const char*> {};

TEST_P(EveryStrategy, DeathOfARankEndsAllAndIsNamed) {
  const std::string strategy = GetParam();
  const bool serves = strategy.starts_with("ps") || strategy == "fedavg";
  const std::size_t processes = serves ? 3 : 2;
  Command command("train --model lenet5 --steps 1000000 --strategy " + strategy);
  const auto ranks = command.ranks_under_way(processes);
  ASSERT_EQ(ranks.size(), processes) << command.err();
  const auto start = std::chrono::steady_clock::now();
  ::kill(ranks.back(), SIGKILL);
  EXPECT_EQ(command.wait(), exit_rank_lost);
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_THAT(command.err(),
              HasSubstr(fmt::format("rank {} (pid {}) was killed by signal 9 (Killed)",
                                    processes - 1, ranks.back())));
  if (processes == 3) {
    EXPECT_THAT(command.err(), HasSubstr("the parameter server"));
  }
  EXPECT_EQ(command.out(), "");
  expect_nothing_left(command, ranks);
}

TEST_P(EveryStrategy, CtrlCEndsAll) {
  const std::string strategy = GetParam();
  const bool serves = strategy.starts_with("ps") || strategy == "fedavg";
  const std::size_t processes = serves ? 3 : 2;
  Command command("train --model lenet5 --steps 1000000 --strategy " + strategy);
  const auto ranks = command.ranks_under_way(processes);
  ASSERT_EQ(ranks.size(), processes) << command.err();
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130);
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_THAT(command.err(), HasSubstr("interrupted"));
  EXPECT_EQ(command.out(), "");
  expect_nothing_left(command, ranks);
}

INSTANTIATE_TEST_SUITE_P(Training, EveryStrategy,
                         testing::Values("ddp", "fsdp", "ps-sync", "ps-async", "diloco", "fedavg"),
                         [](const testing::TestParamInfo<const char*>& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The server must run on the first rank's core, because its messages with this rank are predicted
// for one core. Placed in turn on two cores it would share the second rank's.
TEST(Training, ServesFromTheFirstRanksCore) {
  Command command("train --model lenet5 --steps 1000000 --strategy ps-sync --ranks 3");
  const auto ranks = command.ranks_under_way(4);
  ASSERT_EQ(ranks.size(), 4u) << command.err();
  std::vector<cpu_set_t> cores(4);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(::sched_getaffinity(ranks[i], sizeof cores[i], &cores[i]), 0);
    EXPECT_EQ(CPU_COUNT(&cores[i]), 1);
  }
  EXPECT_TRUE(CPU_EQUAL(&cores[0], &cores[3]));
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130);
}

constexpr const char* quick = " --minimum 6 --maximum 8 --width 50% --most-time 2s";

// Sanitizers need more address space than these tests allow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_shadow_memory = true;
#else
constexpr bool has_shadow_memory = false;
#endif

// LibTorch's own message is certain; a signal may have other causes.
TEST(Training, OutOfMemoryNamesTheRankAndTheSize) {
  if (has_shadow_memory) GTEST_SKIP() << "built with sanitizers";
  Command command("train --model vgg11 --image 3x64x64 --batch 1500", "ulimit -v 4000000;");
  EXPECT_EQ(command.wait(), exit_rank_lost);
  EXPECT_THAT(command.err(), testing::ContainsRegex("rank [01] is out of memory: .*allocate"));
  EXPECT_THAT(command.err(), Not(HasSubstr("frame #")));
  EXPECT_FALSE(command.run_folder_left());
}

TEST(Calibrate, KeepsWhatItHadOnCtrlC) {
  // The second batch is measured for as long as allowed, so the interrupt hits it.
  Command command(
      "calibrate --models lenet5 --batches 1,2 --minimum 6 --maximum 1000000 "
      "--width 0.001% --most-time 3s --ranks 2 -o kept");
  ASSERT_TRUE(Command::until([&] { return command.err().find("[2/3]") != std::string::npos; }))
      << command.err();
  const auto ranks = command.ranks_under_way(2, ".layers");
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130) << command.err();
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_THAT(command.err(), HasSubstr("kept/profile.yaml"));
  const Profile profile = load_profile((command.path() / "kept" / "profile.yaml").string());
  EXPECT_EQ(setting_of(profile, "layers_complete"), "no, interrupted");
  ASSERT_EQ(profile.models.size(), 1u);
  ASSERT_GE(profile.models[0].batches.size(), 1u);
  EXPECT_EQ(profile.models[0].batches[0].samples, 1);
  expect_nothing_left(command, ranks);
}

// A profile grows over several runs; disturbances of an earlier run must not count for this one.
TEST(Calibrate, NotesTheNoiseOfThisRunOnly) {
  Command command(std::string("calibrate --models lenet5 --batches 1") + quick + " -o kept",
                  "until test -f kept/profile.yaml; do sleep 0.01; done;");
  Profile earlier;
  earlier.device = "cpu-core";
  earlier.noise = {.samples = 1000000, .relative_spread = 50};
  save_profile(command.path() / "kept", earlier);
  EXPECT_EQ(command.wait(), 0) << command.err();
  const Profile profile = load_profile((command.path() / "kept" / "profile.yaml").string());
  EXPECT_LT(profile.noise.relative_spread, 50);
  EXPECT_LT(profile.noise.samples, 1000000);
  EXPECT_GT(profile.noise.samples, 0);
}

// The first layer needs 7.9 GB for 30000 images, which take 1.5 GB themselves. The address space is
// limited to 8 GB, so LibTorch is refused memory at once.
TEST(Calibrate, SkipsABatchThatDoesNotFit) {
  if (has_shadow_memory) GTEST_SKIP() << "built with sanitizers";
  Command command(std::string("calibrate --models resnet18 --image 3x64x64 --batches 30000,1") +
                      quick + " -o kept",
                  "ulimit -v 8000000;");
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_THAT(command.out(), HasSubstr("skipped: out of memory"));
  const Profile profile = load_profile((command.path() / "kept" / "profile.yaml").string());
  EXPECT_EQ(setting_of(profile, "layers_complete"), "yes");
  ASSERT_EQ(profile.models.size(), 1u);
  ASSERT_EQ(profile.models[0].batches.size(), 1u);
  EXPECT_EQ(profile.models[0].batches[0].samples, 1);
  EXPECT_FALSE(profile.copies.empty());
}

// The kernel kills a process that uses too much memory, and other programs may kill a process, too.
TEST(Calibrate, SkipsABatchWhoseRankIsKilled) {
  Command command(
      "calibrate --models lenet5 --batches 4,1 --minimum 6 --maximum 1000000 "
      "--width 0.001% --most-time 3s --ranks 2 -o kept");
  const auto ranks = command.ranks_under_way(2, ".layers");
  ASSERT_EQ(ranks.size(), 2u) << command.err();
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_THAT(command.out(), HasSubstr("skipped: killed (signal 9), out of memory perhaps"));
  EXPECT_THAT(command.err(), HasSubstr("was killed by signal 9 (Killed): the kernel does that"));
  const Profile profile = load_profile((command.path() / "kept" / "profile.yaml").string());
  ASSERT_EQ(profile.models.size(), 1u);
  ASSERT_EQ(profile.models[0].batches.size(), 1u);
  EXPECT_EQ(profile.models[0].batches[0].samples, 1);
}

TEST(Calibrate, SaysAtOnceThatItCannotWrite) {
  Command command(std::string("calibrate --models lenet5 -o out/folder") + quick);  // out is a file
  EXPECT_EQ(command.wait(), exit_not_written);
  EXPECT_THAT(command.err(), HasSubstr("cannot write out/folder/profile.yaml"));
  EXPECT_THAT(command.err(), Not(HasSubstr("[1/")));
}

TEST(Output, ThatNobodyTakesIsAnErrorAndLeavesNothing) {
  for (const char* redirect : {">&- 2> err", "> /dev/full 2> err"}) {
    Command command("train --model lenet5 --steps 1 --warm-up 1", "", redirect);
    EXPECT_EQ(command.wait(), exit_not_written) << redirect;
    EXPECT_THAT(command.err(), HasSubstr("cannot write the answer")) << redirect;
    EXPECT_FALSE(command.run_folder_left());
  }
}

struct Refused {
  const char* arguments;
  const char* reason;
};

TEST(WrongInput, IsSaidBeforeAnythingStarts) {
  for (const Refused& row : std::vector<Refused>{
           {"train --model resnet5O", "did you mean 'resnet50'?"},
           {"train --model lenet5 --strategy dpp", "did you mean 'ddp'?"},
           {"train --model lenet5 --slow-rank 5:2", "a rank from 0 to 1"},
           {"train --model lenet5 --every 2", "--every: is of ranks that meet now and then"},
           {"train --model lenet5 --strategy diloco --every 0", "--every"},
           {"train --model lenet5 --strategy diloco --outer-rate 0", "--outer-rate"},
           {"train --model lenet5 --strategy diloco --outer-momentum 1", "--outer-momentum"},
           {"train --model lenet5 --strategy diloco --participants 50%", "--strategy fedavg"},
           {"train --model lenet5 --strategy fedavg --participants 0%", "more than 0%"},
           {"train --model lenet5 --strategy fedavg --participants 2", "did you mean '2%'?"},
           {"train --model lenet5 --slow-rank 1", "RANK:FACTOR"},
           {"train --model lenet5 --slow-rank 1:0.5", "at least 1"},
           {"train --model lenet5 --image 3x32", "channels x height x width"},
           {"train --model lenet5 --image 1x0x28", "image"},
           {"train --model lenet5 --batch 0", "--batch"},
           {"train --model lenet5 --bucket 25", "--bucket"},
           {"train --model lenet5 --network fast", "--network"},
           {"train --model lenet5 --set depth=2", "depth"},
           {"train --model lenet5 --slow-rank 99999999999:2", "a rank from 0 to 1"},
           {"train --model lenet5 --jitter -5%", "--jitter"},
           {"train --model lenet5 --jitter 5", "did you mean '5%'?"},
           {"train --model lenet5 --learning-rate nan", "--learning-rate"},
           {"train --model lenet5 --learning-rate -1", "--learning-rate"},
           {"train --model lenet5 --momentum inf", "--momentum"},
           {"train --model lenet5 --precision amp-fp16", "--precision: 'amp-fp16'"},
           {"train --model lenet5 --precision tf32", "--precision: 'tf32'"},
           {"train --model lenet5 --device tpu", "--device"},
           {"train --model lenet5 --precision fp31", "did you mean 'fp32'?"},
           {"calibrate --models lenet5,vgg61", "did you mean 'vgg11'?"},
           {"calibrate", "--models"},
           {"calibrate --models lenet5 --precisions fp32,pure-fp16", "--precisions: 'pure-fp16'"},
           {"calibrate --models lenet5 --width 2", "did you mean '2%'?"},
           {"calibrate --models lenet5 --batches 0", "--batches"},
           {"calibrate --models lenet5 --batches 1.5", "--batches"},
           {"calibrate --models lenet5 --precisions fp32,", "--precision"},
           {"calibrate --models lenet5 --width 0", "--width"},
           {"calibrate --models lenet5 --pause 61s", "--pause: '61s' is not possible"},
           {"calibrate --models lenet5 --pause -1s", "--pause"},
           {"calibrate --models lenet5 --maximum -1", "--maximum"},
           {"calibrate --models lenet5 --comm-hooks top-k", "--comm-hooks: one rank sends no"},
           {"calibrate --models lenet5 --ranks 2 --comm-hooks topk", "did you mean 'top-k'?"},
           {"calibrate --models lenet5 --ranks 2 --comm-hooks top-k --hook-fraction 0%",
            "--hook-fraction: '0%' is not possible"},
           {"calibrate --models lenet5 --ranks 2 --comm-hooks powersgd --hook-rank 0",
            "--hook-rank"},
       }) {
    Command command(row.arguments);
    EXPECT_EQ(command.wait(), 2) << row.arguments << "\n" << command.err();
    EXPECT_THAT(command.err(), HasSubstr(row.reason)) << row.arguments;
    EXPECT_EQ(command.out(), "");
  }
}

TEST(Gpu, ThatIsNotHereIsSaidPlainly) {
  for (const char* arguments : {"train --model lenet5 --device cuda:63",
                                "calibrate --models lenet5 --as h200-sxm --device cuda:63"}) {
    Command command(arguments);
    EXPECT_EQ(command.wait(), 2) << arguments;
    EXPECT_THAT(command.err(), HasSubstr("--device: 'cuda:63'"));
    EXPECT_THAT(command.err(), Not(HasSubstr("frame #")));
  }
}

}  // namespace
}  // namespace lockstep::bad_situations_test
