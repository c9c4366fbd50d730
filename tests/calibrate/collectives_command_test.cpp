// Does `lockstep-calibrate collectives` measure, and does it end in order when something happens?
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "costs/profile.hpp"
#include "launch/network.hpp"
#include "launch/processes.hpp"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// One run of the program with a folder for everything it makes.
class Command {
 public:
  explicit Command(const std::string& arguments) {
    const std::string line = fmt::format("cd {0} && TMPDIR={0} exec {1} {2} > {0}/out 2> {0}/err",
                                         path().string(), LOCKSTEP_CALIBRATE, arguments);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Command() {
    if (!ended_) {
      ::kill(pid_, SIGTERM);
      wait();
    }
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string out() const { return text_of(path() / "out"); }
  std::string err() const { return text_of(path() / "err"); }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // The ranks: our program's children.
  std::vector<pid_t> ranks() const {
    std::istringstream in(text_of(fmt::format("/proc/{0}/task/{0}/children", pid_)));
    std::vector<pid_t> all;
    for (pid_t pid = 0; in >> pid;) all.push_back(pid);
    return all;
  }
  // Waits until rank 0 has measured something.
  bool started() const {
    for (int i = 0; i < 6000; ++i) {
      for (const auto& entry : std::filesystem::directory_iterator(path())) {
        if (!text_of(entry.path() / "rank0.result").empty()) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  bool run_folder_left() const {
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().filename().string().rfind("lockstep-run-", 0) == 0) return true;
    }
    return false;
  }

 private:
  RunFolder folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Collectives, AreMeasuredCheckedAndKept) {
  Command command("collectives --sizes 4KiB,1MiB --seconds 0.5 --json -o kept");
  ASSERT_EQ(command.wait(), 0) << command.err();
  const auto json = nlohmann::json::parse(command.out());
  EXPECT_EQ(json["network"], "loopback");
  EXPECT_EQ(json["complete"], true);
  ASSERT_EQ(json["points"].size(), 10u);  // five collectives, two sizes
  for (const auto& point : json["points"]) {
    EXPECT_EQ(point["wrong"], 0) << point;
    EXPECT_GT(point["seconds"], 1e-6) << point;
    EXPECT_LT(point["seconds"], 1) << point;
    EXPECT_GT(point["cpu_seconds"], 0) << point;
    EXPECT_GE(point["repetitions"], 7) << point;
    // Beside compute only what takes long enough, and messages never.
    const bool beside = point["bytes"] > 1e6 && point["collective"] != "send_recv";
    for (const char* speed : {"compute_speed", "speed_beside_compute"}) {
      EXPECT_EQ(point[speed] > 0, beside) << point;
      EXPECT_LE(point[speed], 1) << point;
    }
    if (point["bytes"] > 1e6 && point["collective"] == "send_recv") {
      EXPECT_LE(point["sender_seconds"], point["seconds"]) << point;
      EXPECT_GT(point["one_core_seconds"], 1e-6) << point;
    } else {
      EXPECT_EQ(point["sender_seconds"], 0) << point;
      EXPECT_EQ(point["one_core_seconds"], 0) << point;
    }
  }
  const Profile profile = load_profile(command.path() / "kept" / "profile.yaml");
  EXPECT_EQ(profile.device, "cpu-core");
  ASSERT_EQ(profile.collectives.size(), 5u);
  EXPECT_EQ(profile.collectives[0].points.size(), 2u);
  EXPECT_GT(profile.collectives[0].points[0].host_seconds, 0);
  const auto says = [&](const std::string& name, const std::string& value) {
    return std::any_of(profile.settings.begin(), profile.settings.end(),
                       [&](const auto& s) { return s.name == name && s.value == value; });
  };
  EXPECT_TRUE(says("MALLOC_MMAP_MAX_", "0"));
  EXPECT_TRUE(says("OMP_NUM_THREADS", "1"));
  EXPECT_TRUE(says("collectives_network", "loopback"));
  EXPECT_TRUE(says("collectives_complete", "yes"));
  EXPECT_FALSE(command.run_folder_left());
}

// A token bucket makes the rate a lower bound of the time of large messages: 8 MiB of all-reduce
// between two ranks are 8 MiB each way.
TEST(Collectives, RateLimitedLinkLimits) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Command command(
      "collectives --sizes 8MiB --collectives all_reduce --network 500Mbit --seconds 2 --json");
  ASSERT_EQ(command.wait(), 0) << command.err();
  const auto json = nlohmann::json::parse(command.out());
  EXPECT_EQ(json["network"], "0.5 Gbit/s");
  EXPECT_EQ(json["nodes"], 2);
  EXPECT_EQ(json["points"][0]["wrong"], 0);
  const double payload = 8 * 1048576 / 62.5e6;
  EXPECT_GT(json["points"][0]["seconds"], payload);
  EXPECT_LT(json["points"][0]["seconds"], 1.25 * payload);
}

TEST(Collectives, DeathOfARankEndsAllAndIsNamed) {
  Command command("collectives --sizes 4KiB..64MiB");
  ASSERT_TRUE(command.started()) << command.err();
  const auto ranks = command.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  const auto start = std::chrono::steady_clock::now();
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(command.wait(), 1);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.err(),
              HasSubstr(fmt::format("rank 1 (pid {}) was killed by signal 9 (Killed)", ranks[1])));
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0);
}

TEST(Collectives, CtrlCKeepsWhatIsMeasured) {
  Command command("collectives --sizes 4KiB..64MiB -o kept");
  ASSERT_TRUE(command.started()) << command.err();
  const auto ranks = command.ranks();
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.out(), HasSubstr("# interrupted: not all sizes were measured"));
  const Profile profile = load_profile(command.path() / "kept" / "profile.yaml");
  ASSERT_FALSE(profile.collectives.empty());
  const bool marked =
      std::any_of(profile.settings.begin(), profile.settings.end(), [](const auto& s) {
        return s.name == "collectives_complete" && s.value == "no, interrupted";
      });
  EXPECT_TRUE(marked);
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0);
}

TEST(Collectives, WrongInputIsSaidBeforeAnythingStarts) {
  const auto refused = [](const std::string& arguments, const std::string& reason) {
    Command command("collectives " + arguments);
    EXPECT_EQ(command.wait(), 2) << arguments;
    EXPECT_THAT(command.err(), HasSubstr(reason));
    EXPECT_EQ(command.out(), "");
  };
  refused("--sizes 12", "--sizes");
  refused("--collectives all_reduze", "did you mean 'all_reduce'?");
  refused("--network fast", "--network");
  refused("--ranks 1", "--ranks");
}

}  // namespace
}  // namespace lockstep
