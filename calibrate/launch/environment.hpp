// Environment variables that libraries read before main(). Every measuring process must be started
// with them.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct EnvironmentVariable {
  std::string name;
  std::string value;
  bool operator==(const EnvironmentVariable&) const = default;
};

// The environment of every measured or training process. With it, glibc's malloc does not return
// memory to the kernel (mallopt(3)), because page faults would take up to 20 % of a step on a CPU;
// and every library computes with `threads` threads. The profile's settings must record it.
std::vector<EnvironmentVariable> measuring_environment(int threads = 1);

}  // namespace lockstep
