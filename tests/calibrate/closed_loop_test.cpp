// How does `lockstep closed-loop` end when it cannot go on?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/command.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

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
  Command command("closed-loop --model lenet5 -o kept",
                  "export LOCKSTEP_CALIBRATE=" LOCKSTEP_CALIBRATE ";", "> out 2> err",
                  LOCKSTEP_PROGRAM);
  // The program, its measuring half and two ranks.
  ASSERT_TRUE(Command::until([&] { return children(command.pid()).size() == 3; })) << command.err();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::vector<pid_t> below = children(command.pid());
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130) << command.err();
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.err(), HasSubstr("interrupted; what was measured is in kept"));
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

}  // namespace
}  // namespace lockstep
