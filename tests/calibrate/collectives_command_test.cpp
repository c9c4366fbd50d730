// Does `lockstep calibrate collectives` measure, and does it end in order if something goes wrong?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "calibrate/command.hpp"
#include "costs/profile.hpp"
#include "imports/profile_folder.hpp"
#include "launch/network.hpp"
#include "probes/collective_report.hpp"

namespace lockstep::collectives_command_test {
namespace {

using testing::HasSubstr;

// Waits until rank 0 has measured a point.
bool started(const Command& command) {
  return Command::until([&] {
    for (const auto& entry : std::filesystem::directory_iterator(command.path())) {
      if (!text_of(entry.path() / "rank0.result").empty()) return true;
    }
    return false;
  });
}

Profile kept_profile(const Command& command) {
  return load_profile((command.path() / "kept" / "profile.yaml").string());
}

TEST(Collectives, AreMeasuredCheckedAndKept) {
  Command command("calibrate collectives --sizes 4KiB,1MiB --seconds 0.25 --json -o kept");
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
    // Only long collectives are also measured beside compute; messages are not.
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
  const Profile profile = kept_profile(command);
  EXPECT_EQ(profile.device, "cpu-core");
  ASSERT_EQ(profile.collectives.size(), 5u);
  EXPECT_EQ(profile.collectives[0].points.size(), 2u);
  EXPECT_GT(profile.collectives[0].points[0].host_seconds, 0);
  EXPECT_EQ(setting_of(profile, "MALLOC_MMAP_MAX_"), "0");
  EXPECT_EQ(setting_of(profile, "OMP_NUM_THREADS"), "1");
  EXPECT_EQ(setting_of(profile, "collectives_network"), "loopback");
  EXPECT_EQ(setting_of(profile, "collectives_complete"), "yes");
  EXPECT_FALSE(command.run_folder_left());
}

// On a rate-limited link 8 MiB of all-reduce between two ranks send 8 MiB each way, which the rate
// bounds from below.
TEST(Collectives, RateLimitedLinkLimits) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Command command(
      "calibrate collectives --sizes 8MiB --collectives all_reduce --network 500Mbit --seconds 2 "
      "--json");
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
  Command command("calibrate collectives --sizes 4KiB..64MiB");
  ASSERT_TRUE(started(command)) << command.err();
  const auto ranks = command.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  const auto start = std::chrono::steady_clock::now();
  ::kill(ranks[1], SIGKILL);
  EXPECT_EQ(command.wait(), exit_rank_lost);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.err(),
              HasSubstr(fmt::format("rank 1 (pid {}) was killed by signal 9 (Killed)", ranks[1])));
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0);
}

TEST(Collectives, CtrlCKeepsWhatIsMeasured) {
  Command command("calibrate collectives --sizes 4KiB..64MiB -o kept");
  ASSERT_TRUE(started(command)) << command.err();
  const auto ranks = command.ranks();
  const auto start = std::chrono::steady_clock::now();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130);
  EXPECT_LT(seconds_since(start), 10);
  EXPECT_THAT(command.out(), HasSubstr("# interrupted: not all sizes were measured"));
  const Profile profile = kept_profile(command);
  ASSERT_FALSE(profile.collectives.empty());
  EXPECT_EQ(setting_of(profile, "collectives_complete"), "no, interrupted");
  EXPECT_FALSE(command.run_folder_left());
  for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0);
}

constexpr const char* when_there_is_a_profile =
    "until test -f kept/profile.yaml; do sleep 0.01; done;";

// Points of an earlier run stay in the profile if this run was interrupted before it measured them.
TEST(Collectives, CtrlCKeepsTheSizesOfAnEarlierRun) {
  Command command("calibrate collectives --sizes 4KiB..64MiB -o kept", when_there_is_a_profile);
  Profile earlier;
  earlier.device = "cpu-core";
  for (const Collective collective : measurable_collectives()) {
    ProfileCurvePoint point;
    point.bytes = 64 * 1048576.0;
    point.seconds = 9;
    earlier.collectives.push_back({enum_name(collective), "gloo", 2, 1, {point}});
  }
  set_setting(earlier, "collectives_network", "loopback");
  save_profile((command.path() / "kept").string(), earlier);
  ASSERT_TRUE(started(command)) << command.err();
  ::kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(), 130);
  const Profile profile = kept_profile(command);
  ASSERT_EQ(profile.collectives.size(), 5u);
  std::size_t points = 0;
  for (const ProfileCollective& curve : profile.collectives) {
    EXPECT_EQ(curve.points.back().seconds, 9) << curve.collective;
    points += curve.points.size();
  }
  EXPECT_GT(points, 5u);
}

// A parameter server's host has both kinds of connections: loopback to the first rank, a link to
// the others.
TEST(Collectives, OfOneHostAndOfSeveralAreDescribedApart) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Command command(
      "calibrate collectives --collectives broadcast --sizes 4KiB --seconds 0.1 -o kept",
      fmt::format("set -e; for network in 500Mbit 1Gbit; do {} calibrate collectives "
                  "--collectives all_reduce,broadcast --sizes 4KiB --seconds 0.1 "
                  "-o kept --network $network; done;",
                  LOCKSTEP_CALIBRATE));
  ASSERT_EQ(command.wait(), 0) << command.err();
  const Profile profile = kept_profile(command);
  EXPECT_EQ(setting_of(profile, "collectives_network"), "loopback");
  EXPECT_EQ(setting_of(profile, "collectives_2_nodes_network"), "1 Gbit/s");
  EXPECT_THAT(setting_of(profile, "collectives_disturbed_points"), testing::EndsWith(" of 1"));
  EXPECT_THAT(setting_of(profile, "collectives_2_nodes_disturbed_points"),
              testing::EndsWith(" of 2"));
  EXPECT_EQ(profile.collectives.size(), 3u);
}

// Curves of two networks in one profile would describe neither.
TEST(Collectives, OfAnotherNetworkAreDropped) {
  const std::string reason = why_no_linked_hosts();
  if (!reason.empty()) GTEST_SKIP() << reason;
  Command command(
      "calibrate collectives --collectives broadcast --sizes 4KiB --seconds 0.1 -o kept "
      "--network 1Gbit",
      when_there_is_a_profile);
  Profile earlier;
  earlier.device = "cpu-core";
  ProfileCurvePoint point;
  point.bytes = 4096;
  point.seconds = 9;
  earlier.collectives = {{"all_reduce", "gloo", 2, 2, {point}},
                         {"all_reduce", "gloo", 2, 1, {point}}};
  set_setting(earlier, "collectives_2_nodes_network", "0.5 Gbit/s");
  save_profile((command.path() / "kept").string(), earlier);
  ASSERT_EQ(command.wait(), 0) << command.err();
  EXPECT_THAT(command.err(), HasSubstr("dropped 1 curves of 2 nodes that were measured over 0.5"));
  const Profile profile = kept_profile(command);
  ASSERT_EQ(profile.collectives.size(), 2u);
  EXPECT_EQ(profile.collectives[0].nodes, 1);
  EXPECT_EQ(profile.collectives[1].collective, "broadcast");
}

TEST(Collectives, WrongInputIsSaidBeforeAnythingStarts) {
  const auto refused = [](const std::string& arguments, const std::string& reason) {
    Command command("calibrate collectives " + arguments);
    EXPECT_EQ(command.wait(), 2) << arguments;
    EXPECT_THAT(command.err(), HasSubstr(reason));
    EXPECT_EQ(command.out(), "");
  };
  refused("--sizes 12", "--sizes");
  refused("--collectives all_reduze", "did you mean 'all_reduce'?");
  refused("--network fast", "--network");
  refused("--ranks 1", "--ranks");
  refused("--as cpu", "--as: unknown device 'cpu'; allowed: ");
  refused("--as cpu-cor -o kept", "did you mean 'cpu-core'?");
  refused("--backend nccl", "lockstep-calibrate-cuda --probes collectives");
  refused("--backend gluo", "did you mean 'gloo'?");
}

}  // namespace
}  // namespace lockstep::collectives_command_test
