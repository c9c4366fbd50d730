// Do ranks start as requested, and does every bad end of a rank end all ranks with a clear message?
#include "launch/processes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "launch/interrupts.hpp"

namespace lockstep::processes_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

RankProcess shell(const std::string& script) {
  return {{"-c", script}, {}, -1, "", "/bin/sh"};
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Whether the process with the id in the file has ended.
bool gone(const std::filesystem::path& pid_file) {
  const pid_t pid = std::stoi(text_of(pid_file));
  return ::kill(pid, 0) != 0 && errno == ESRCH;
}

TEST(Processes, ResultsComeBackThroughTheFolder) {
  std::filesystem::path path;
  {
    const RunFolder folder;
    path = folder.path();
    std::vector<RankProcess> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.push_back(shell(fmt::format("echo $GREETING > {}", folder.result_file(rank).string())));
      ranks.back().environment = {{"GREETING", fmt::format("from {}", rank)}};
    }
    const LaunchEnd end = run_processes(ranks);
    EXPECT_EQ(end.how, LaunchEnd::How::finished);
    EXPECT_EQ(end.message, "");
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(text_of(folder.result_file(rank)), fmt::format("from {}\n", rank));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Processes, FolderIsRemovedOnErrorToo) {
  std::filesystem::path path;
  EXPECT_THROW(
      {
        const RunFolder folder;
        path = folder.path();
        throw std::runtime_error("bad");
      },
      std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Processes, AreOursWithTheMeasuringEnvironmentEachOnACore) {
  const auto ranks = pinned_ranks(3, [](int rank) {
    return std::vector<std::string>{"worker", std::to_string(rank)};
  });
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_THAT(ranks[2].arguments, testing::ElementsAre("worker", "2"));
  EXPECT_EQ(ranks[0].environment, measuring_environment(1));
  EXPECT_EQ(ranks[0].program, "");
  for (const auto& rank : ranks) EXPECT_GE(rank.core, 0);
}

TEST(Processes, ArePinned) {
  const RunFolder folder;
  RankProcess rank = shell(
      fmt::format("grep Cpus_allowed_list /proc/self/status > {}", folder.result_file(0).string()));
  rank.core = pinned_ranks(1, [](int) { return std::vector<std::string>{}; })[0].core;
  EXPECT_EQ(run_processes({rank}).how, LaunchEnd::How::finished);
  EXPECT_EQ(text_of(folder.result_file(0)), fmt::format("Cpus_allowed_list:\t{}\n", rank.core));
}

// A rank that runs `script` once another rank has written its process number to the file.
RankProcess when_started(const std::filesystem::path& number, const char* script) {
  return shell(fmt::format("while [ ! -s {} ]; do sleep 0.02; done; {}", number.string(), script));
}

TEST(Processes, StandardOutputOfRanksStaysOutOfOurs) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  run_processes({shell("echo noise")});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "noise\n");
}

TEST(Processes, DeathOfOneEndsAllAndIsNamed) {
  const RunFolder folder;
  LaunchEnd end;
  const double seconds = seconds_of([&] {
    end = run_processes(
        {shell(fmt::format("echo $$ > {}; exec sleep 60", folder.file("sleeper").string())),
         when_started(folder.file("sleeper"), "kill -9 $$")});
  });
  EXPECT_EQ(end.how, LaunchEnd::How::failed);
  EXPECT_EQ(end.rank, 1);
  EXPECT_EQ(end.exit_code, 128 + 9);
  EXPECT_THAT(end.message, StartsWith("rank 1 (pid "));
  EXPECT_THAT(end.message, HasSubstr(") was killed by signal 9 (Killed)"));
  EXPECT_LT(seconds, 5);
  EXPECT_TRUE(gone(folder.file("sleeper")));
}

TEST(Processes, ExitCodeOfTheFailedRankIsKept) {
  const LaunchEnd end = run_processes({shell("exec sleep 60"), shell("exit 2")});
  EXPECT_EQ(end.how, LaunchEnd::How::failed);
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_THAT(end.message, HasSubstr("ended with exit code 2"));
}

TEST(Processes, OnesThatIgnoreSigtermAreKilled) {
  const RunFolder folder;
  const double seconds = seconds_of([&] {
    run_processes({shell(fmt::format("trap '' TERM; echo $$ > {}; while :; do sleep 0.1; done",
                                     folder.file("stubborn").string())),
                   when_started(folder.file("stubborn"), "exit 1")},
                  0.5);
  });
  EXPECT_LT(seconds, 5);
  EXPECT_TRUE(gone(folder.file("stubborn")));
}

TEST(Processes, CtrlCEndsAllAndKeepsWhatIsThere) {
  const RunFolder folder;
  const auto script = [&](int rank) {
    return shell(fmt::format("echo partial > {}; echo $$ > {}; exec sleep 60",
                             folder.result_file(rank).string(),
                             folder.file(std::to_string(rank)).string()));
  };
  const InterruptGuard guard;  // the signal must not end the test itself
  std::thread finger([&] {
    while (text_of(folder.file("0")).empty() || text_of(folder.file("1")).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(::getpid(), SIGINT);
  });
  LaunchEnd end;
  const double seconds = seconds_of([&] { end = run_processes({script(0), script(1)}); });
  finger.join();
  EXPECT_EQ(end.how, LaunchEnd::How::interrupted);
  EXPECT_LT(seconds, 10);
  EXPECT_EQ(text_of(folder.result_file(1)), "partial\n");
  EXPECT_TRUE(gone(folder.file("0")));
  EXPECT_TRUE(gone(folder.file("1")));
  // Calls after the interrupt get the same answer.
  EXPECT_EQ(run_processes({shell("exit 0")}).how, LaunchEnd::How::interrupted);
}

TEST(Processes, WriteToFilesWhereTheyAreAskedTo) {
  const RunFolder folder;
  RankProcess rank = shell("echo answer; echo log >&2");
  rank.output = folder.file("out").string();
  rank.errors = folder.file("err").string();
  run_processes({rank});
  EXPECT_EQ(text_of(rank.output), "answer\n");
  EXPECT_EQ(text_of(rank.errors), "log\n");
  rank.output = "";
  run_processes({rank});
  EXPECT_EQ(text_of(rank.errors), "answer\nlog\n");
  rank.errors = folder.file("none/err").string();
  EXPECT_THROW(run_processes({rank}), OutputError);
}

TEST(Processes, ThatTakeTooLongAreEnded) {
  const RunFolder folder;
  LaunchEnd end;
  const double seconds = seconds_of([&] {
    end = run_processes(
        {shell(fmt::format("echo $$ > {}; exec sleep 60", folder.file("pid").string()))}, 2, 0.3);
  });
  EXPECT_EQ(end.how, LaunchEnd::How::too_long);
  EXPECT_EQ(end.message, "took more than 0.3 s");
  EXPECT_GE(seconds, 0.3);
  EXPECT_LT(seconds, 5);
  EXPECT_TRUE(gone(folder.file("pid")));
  EXPECT_EQ(run_processes({shell("exit 0")}, 2, 60).how, LaunchEnd::How::finished);
}

TEST(Processes, NoOrphanWhenWeAreKilled) {
  const RunFolder folder;
  const pid_t middle = ::fork();
  if (middle == 0) {
    run_processes({shell(fmt::format("echo $$ > {}; exec sleep 60", folder.file("pid").string()))});
    _exit(0);
  }
  while (!std::filesystem::exists(folder.file("pid")) || text_of(folder.file("pid")).empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(middle, SIGKILL);
  ::waitpid(middle, nullptr, 0);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto dead = [&] {  // a zombie until its new parent collects it
    const std::string pid = text_of(folder.file("pid"));
    const std::string status = text_of("/proc/" + pid.substr(0, pid.find('\n')) + "/stat");
    return status.empty() || status.find(") Z ") != std::string::npos;
  };
  while (!dead() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(dead());
}

TEST(Processes, WhatCannotStartIsSaidPlainly) {
  const auto message = [](const RankProcess& rank) -> std::string {
    try {
      run_processes({rank});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "started";
  };
  RankProcess rank = shell("exit 0");
  rank.program = "/no/such/program";
  EXPECT_EQ(message(rank), "cannot start rank 0: start program: No such file or directory");
  rank = shell("exit 0");
  rank.network_namespace = "no-such-namespace";
  EXPECT_EQ(message(rank), "network namespace no-such-namespace: No such file or directory");
  rank = shell("exit 0");
  rank.core = 1000;
  EXPECT_EQ(message(rank), "cannot start rank 0: pin to core: Invalid argument");
}

}  // namespace
}  // namespace lockstep::processes_test
