// Are worker processes reused, and does a piece that crashes, hangs or needs too much memory lose
// only itself?
#include "points/pool.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

namespace lockstep::pool_test {
namespace {

using testing::HasSubstr;

// The result of every piece; each piece must report once.
std::map<std::size_t, PoolResult> all(const PoolOptions& options, std::size_t count,
                                      const PoolWork& work) {
  Pool pool(options, work);
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  pool.add(indices);
  std::map<std::size_t, PoolResult> results;
  while (pool.unanswered() > 0) {
    for (PoolResult& result : pool.collect(1)) {
      EXPECT_TRUE(results.emplace(result.index, result).second) << result.index;
    }
  }
  EXPECT_EQ(results.size(), count);
  return results;
}

std::string pid() {
  return std::to_string(::getpid());
}

TEST(Pool, ProcessesAreUsedAgain) {
  const auto results =
      all({.workers = 2}, 1000, [](std::size_t, const Report&) { return PoolAnswer(pid()); });
  std::set<std::string> pids;
  for (const auto& [index, result] : results) pids.insert(result.text);
  EXPECT_LE(pids.size(), 2U);
  EXPECT_FALSE(pids.count(pid()));
}

TEST(Pool, NothingRunsInAProcessAfterItsLastPiece) {
  const auto results = all({.workers = 2}, 200, [](std::size_t index, const Report&) {
    static bool last = false;
    if (last) throw std::logic_error("after its last");
    last = index % 10 == 3;
    return PoolAnswer(pid() + (last ? " last" : ""), last);
  });
  std::set<std::string> lasts;
  for (const auto& [index, result] : results) {
    EXPECT_TRUE(result.ok);
    if (index % 10 == 3) lasts.insert(result.text);
  }
  EXPECT_EQ(lasts.size(), 20U);  // each last piece had a process of its own
}

// Quick pieces travel in bundles. A crash must still be blamed on its own piece, and no other piece
// may be lost.
TEST(Pool, ACrashAmongThousandsIsBlamedOnItsPiece) {
  const auto results =
      all({.workers = 3}, 5000, [](std::size_t index, const Report&) -> PoolAnswer {
        if (index == 1234) ::raise(SIGKILL);
        if (index == 1235) ::_exit(3);
        if (index % 1000 == 7) throw std::runtime_error("no idea");
        return std::to_string(index);
      });
  for (const auto& [index, result] : results) {
    const bool bad = index == 1234 || index == 1235 || index % 1000 == 7;
    EXPECT_EQ(result.ok, !bad) << index;
    EXPECT_TRUE(bad || result.text == std::to_string(index)) << result.text;
  }
  EXPECT_THAT(results.at(1234).text, HasSubstr("signal 9"));
  EXPECT_THAT(results.at(1235).text, HasSubstr("without an answer"));
  EXPECT_EQ(results.at(1007).text, "no idea");
}

// The time limit holds although the piece reports progress all the time.
TEST(Pool, APieceThatTakesTooLongIsGivenUp) {
  const auto results = all({.workers = 2, .most_silence = 60, .most_seconds = 0.5}, 100,
                           [](std::size_t index, const Report& report) {
                             while (index == 42) {
                               std::this_thread::sleep_for(std::chrono::milliseconds(1));
                               report(0.5);
                             }
                             return PoolAnswer("done");
                           });
  for (const auto& [index, result] : results) EXPECT_EQ(result.ok, index != 42);
  EXPECT_EQ(results.at(42).text, "the simulation took longer than 0.5 s");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Pool, APieceThatNeedsTooMuchMemoryIsGivenUp) {
  const auto results = all(
      {.workers = 2, .most_bytes = 256.0 * 1024 * 1024}, 20, [](std::size_t index, const Report&) {
        const std::vector<char> memory(index == 13 ? 400'000'000 : 1'000'000, 'x');
        return PoolAnswer(std::to_string(memory[index]));
      });
  for (const auto& [index, result] : results) EXPECT_EQ(result.ok, index != 13);
  EXPECT_EQ(results.at(13).text, "the simulation needs more memory than 256 MiB");
}
#endif

TEST(Pool, ItTakesItsWorkersWithIt) {
  {
    Pool pool({.workers = 2}, [](std::size_t, const Report&) {
      ::pause();
      return PoolAnswer("never");
    });
    pool.add({0, 1});
    EXPECT_TRUE(pool.collect(0.01).empty());
    EXPECT_EQ(pool.unanswered(), 2U);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace lockstep::pool_test
