// Writes this machine as a platform file that is based on a shipped one. Ranks with rate-limited
// links are separate hosts (cpu-1gbit-x2); ranks on loopback share one host (cpu-loopback-x2).
#include "closed_loop/platform.hpp"

#include <algorithm>

#include "core/describe.hpp"
#include "hardware/machine.hpp"
#include "hardware/machine_file.hpp"
#include "launch/network.hpp"

namespace lockstep {

std::string closed_loop_platform(const ClosedLoopOptions& options, int cores, bool networked) {
  MachineFile file;
  if (networked) {
    file.base = "cpu-1gbit-x2";
    file.title = "this machine's cores as hosts of their own";
    file.max_nodes = options.ranks;
    file.fabric = load_machine(file.base).fabric;
    file.fabric->nic_bytes_per_second = network_rate(options.network);
  } else {
    file.base = "cpu-loopback-x2";
    file.title = "processes on this machine";
    file.gpus_per_node = options.ranks;
    file.host = load_machine(file.base).host;
    file.host->cores = std::max(1, std::min(cores, options.ranks));
  }
  return emit_yaml(file);
}

}  // namespace lockstep
