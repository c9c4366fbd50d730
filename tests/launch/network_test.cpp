// Do rate-limited links between namespaces work here, and are they removed completely?
#include "launch/network.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/errors.hpp"

namespace lockstep::network_test {
namespace {

int namespaces_of(pid_t pid) {
  int count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
    count += entry.path().filename().string().rfind(fmt::format("lockstep-{}-", pid), 0) == 0;
  }
  return count;
}

RankProcess in_bash(const std::string& script) {
  return {{"-c", script}, {}, -1, "", "/bin/bash"};
}

class LinkedHostsHere : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_no_linked_hosts();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST(LinkedHosts, RefusalSaysWhy) {
  if (::geteuid() == 0) GTEST_SKIP() << "running as root";
  EXPECT_THAT(why_no_linked_hosts(), testing::HasSubstr("need root"));
}

TEST(LinkedHosts, BadArgumentsAreRefused) {
  EXPECT_THROW(LinkedHosts(1, 1e8), std::runtime_error);
  EXPECT_THROW(LinkedHosts(2, 0), std::runtime_error);
}

TEST_F(LinkedHostsHere, ReachEachOtherAndAreRemoved) {
  for (const int hosts : {2, 3}) {
    {
      const LinkedHosts links(hosts, 125e6);
      EXPECT_EQ(namespaces_of(::getpid()), hosts == 2 ? 2 : 4);
      std::vector<RankProcess> ranks;
      for (int rank = 0; rank < hosts; ++rank) {
        const std::string &mine = links.host(rank).address,
                          &peer = links.host((rank + 1) % hosts).address;
        // A refused TCP connection has crossed the link; a connection that cannot cross it times
        // out.
        ranks.push_back(
            in_bash(fmt::format("ip addr show eth0 | grep -q {} || exit 3; "
                                "(echo > /dev/tcp/{}/9) 2>&1 | grep -q 'Connection refused'",
                                mine, peer)));
      }
      links.place(ranks);
      const LaunchEnd end = run_processes(ranks);
      EXPECT_EQ(end.how, LaunchEnd::How::finished) << end.message;
    }
    EXPECT_EQ(namespaces_of(::getpid()), 0);
  }
}

// An interrupt must end the setup at once as an InterruptError, not as an answer that links cannot
// be made.
TEST_F(LinkedHostsHere, CtrlCWhileTheyAreMadeIsSaidAndLeavesNothing) {
  const InterruptGuard guard;
  ::raise(SIGINT);
  EXPECT_THROW(LinkedHosts(2, 125e6), InterruptError);
  EXPECT_THROW(why_no_linked_hosts(), InterruptError);
  EXPECT_EQ(namespaces_of(::getpid()), 0);
}

std::string send_buffers() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_wmem");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(LinkedHostsHere, SendBuffersAreAsLargeAsTheyWouldGrow) {
  if (::access("/proc/sys/net/ipv4/tcp_wmem", W_OK) != 0) GTEST_SKIP() << "/proc/sys is read-only";
  const std::string ours = send_buffers();
  const LinkedHosts links(2, 125e6);
  std::vector<RankProcess> ranks(
      2, in_bash("read -r least first most < /proc/sys/net/ipv4/tcp_wmem && "
                 "[[ $least -lt $first && $first == $most ]]"));
  links.place(ranks);
  const LaunchEnd end = run_processes(ranks);
  EXPECT_EQ(end.how, LaunchEnd::How::finished) << end.message;
  EXPECT_EQ(send_buffers(), ours);
}

TEST_F(LinkedHostsHere, LeftoversOfADeadProcessAreRemoved) {
  const pid_t child = ::fork();
  if (child == 0) {
    new LinkedHosts(2, 125e6);  // the destructor never runs
    _exit(0);
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_EQ(namespaces_of(child), 2);
  remove_stale_hosts();  // another test may remove the leftovers first
  EXPECT_EQ(namespaces_of(child), 0);
}

TEST(NetworkRate, IsLoopbackOrBitsPerSecond) {
  EXPECT_EQ(network_rate("loopback"), 0);
  EXPECT_EQ(network_rate("1Gbit"), 125e6);
  EXPECT_EQ(network_rate("250 Mbit/s"), 31.25e6);
  for (const char* wrong : {"fast", "1", "1 GB", "0 Gbit"}) {
    try {
      network_rate(wrong);
      ADD_FAILURE() << wrong;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("--network"));
    }
  }
}

TEST(TokenBucket, GrowsAboveAGigabit) {
  EXPECT_EQ(token_bucket_bytes(125e6), 256.0 * 1024);
  EXPECT_EQ(token_bucket_bytes(312.5e6), 1024.0 * 1024);
}

}  // namespace
}  // namespace lockstep::network_test
