// Do results of child processes arrive complete and in order, whatever the children do?
#include "points/fork_map.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>

namespace lockstep::fork_map_test {
namespace {

using testing::HasSubstr;

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

TEST(ForkMap, NothingToDoIsNoWork) {
  EXPECT_TRUE(fork_map(0, {.workers = 4}, [](std::size_t, const Report&) {
                return std::string("x");
              }).empty());
}

TEST(ForkMap, ResultsComeInOrderHoweverTheChildrenFinish) {
  const auto results = fork_map(9, {.workers = 4}, [](std::size_t i, const Report&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * ((7 * i) % 5)));
    return std::to_string(i);
  });
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_TRUE(results[i].ok);
    EXPECT_EQ(results[i].output, std::to_string(i));
  }
  EXPECT_FALSE(has_children());
}

TEST(ForkMap, LongAnswersArriveWhole) {
  const auto results = fork_map(3, {.workers = 3}, [](std::size_t i, const Report&) {
    return std::string(1'000'000 + i, 'a' + char(i));
  });
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(results[i].output == std::string(1'000'000 + i, 'a' + char(i)));
  }
}

TEST(ForkMap, AChildThatCrashesOrThrowsLosesOnlyItsOwnPiece) {
  const auto results = fork_map(6, {.workers = 2}, [](std::size_t i, const Report&) -> std::string {
    if (i == 1) throw std::runtime_error("no idea");
    if (i == 2) ::raise(SIGKILL);
    if (i == 3) ::_exit(5);
    if (i == 4) throw 7;
    return "fine";
  });
  EXPECT_TRUE(results[0].ok);
  EXPECT_FALSE(results[1].ok);
  EXPECT_EQ(results[1].output, "no idea");
  EXPECT_FALSE(results[2].ok);
  EXPECT_THAT(results[2].output, HasSubstr("signal 9"));
  EXPECT_FALSE(results[3].ok);
  EXPECT_THAT(results[3].output, HasSubstr("without an answer"));
  EXPECT_FALSE(results[4].ok);
  EXPECT_TRUE(results[5].ok);
}

TEST(ForkMap, AnEmptyAnswerIsAnAnswer) {
  const auto results = fork_map(1, {}, [](std::size_t, const Report&) { return std::string(); });
  EXPECT_TRUE(results[0].ok);
  EXPECT_EQ(results[0].output, "");
}

TEST(ForkMap, ProgressCountsEveryPieceOnce) {
  std::vector<std::size_t> seen;
  fork_map(5, {.workers = 2, .on_done = [&](std::size_t done) { seen.push_back(done); }},
           [](std::size_t, const Report&) { return std::string("x"); });
  EXPECT_EQ(seen, (std::vector<std::size_t>{1, 2, 3, 4, 5}));
}

TEST(ForkMap, APieceSaysHowFarItIs) {
  std::vector<double> seen;
  ForkOptions options;
  options.on_progress = [&](std::size_t index, double fraction) {
    EXPECT_EQ(index, 0U);
    seen.push_back(fraction);
  };
  const auto results = fork_map(1, options, [](std::size_t, const Report& report) {
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(110));
      report(i / 8.0);
    }
    return std::string("~whatever\nit says");
  });
  ASSERT_GE(seen.size(), 4U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.back(), 0.4);
  EXPECT_LT(seen.back(), 1);
  // no part of the answer is taken for a progress report
  EXPECT_EQ(results[0].output, "~whatever\nit says");
}

TEST(ForkMap, APieceThatHangsIsGivenUp) {
  const auto results =
      fork_map(3, {.workers = 3, .most_silence = 1}, [](std::size_t i, const Report& report) {
        for (int k = 0; i > 0 && k < 25; ++k) {  // 2.5 s; the last piece reports nothing meanwhile
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          if (i == 1) report(k / 25.0);
        }
        return std::string("done");
      });
  EXPECT_TRUE(results[0].ok);
  EXPECT_TRUE(results[1].ok) << results[1].output;
  EXPECT_FALSE(results[2].ok);
  EXPECT_EQ(results[2].output, "the simulation gave no sign of life for 1 s");
  EXPECT_FALSE(has_children());
}

TEST(ForkMap, NoChildOutlivesAnException) {
  const auto work = [](std::size_t i, const Report&) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::seconds(60));
    return std::string("x");
  };
  const auto stop = [](std::size_t) { throw std::runtime_error("stop"); };
  EXPECT_THROW(fork_map(4, {.workers = 4, .on_done = stop}, work), std::runtime_error);
  EXPECT_FALSE(has_children());
}

TEST(ForkMap, ChildrenDoNotPrintWhatTheParentHasBuffered) {
  testing::internal::CaptureStdout();
  std::printf("once ");
  fork_map(3, {.workers = 3}, [](std::size_t, const Report&) { return std::string("x"); });
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "once ");
}

}  // namespace
}  // namespace lockstep::fork_map_test
