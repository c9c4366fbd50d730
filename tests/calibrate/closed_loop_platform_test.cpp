// For which machine does the closed loop predict?
#include "cli/closed_loop_platform.hpp"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <vector>

#include "hardware/machine.hpp"
#include "launch/processes.hpp"

namespace lockstep {
namespace {

// Each rank is pinned to a core, and has no more than that one however many there are.
TEST(ClosedLoop, PredictsForTheCoresThatTheRanksHave) {
  const RunFolder folder;
  const std::string path = folder.file("platform.yaml");
  ClosedLoopOptions options;
  for (const auto& [ranks, cores, expected] :
       std::vector<std::array<int, 3>>{{2, 16, 2}, {8, 16, 8}, {8, 3, 3}, {2, 1, 1}}) {
    options.ranks = ranks;
    std::ofstream(path) << closed_loop_platform(options, cores, false);
    const Machine machine = load_machine(path);
    EXPECT_EQ(machine.gpus_per_node, ranks);
    EXPECT_EQ(machine.host.cores, expected) << ranks << " ranks on " << cores;
    EXPECT_GT(machine.host.core_network_rate, 0);
  }
  options.network = "250Mbit";
  std::ofstream(path) << closed_loop_platform(options, 16, true);
  const Machine linked = load_machine(path);
  EXPECT_EQ(linked.max_nodes, options.ranks);
  EXPECT_DOUBLE_EQ(linked.fabric.nic_bytes_per_second, 250e6 / 8);
  EXPECT_EQ(linked.host.cores, 1);
}

}  // namespace
}  // namespace lockstep
