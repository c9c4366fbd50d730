// Environment variables that libraries read before main(). Start every measuring process with them.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct EnvironmentVariable {
  std::string name;
  std::string value;
  bool operator==(const EnvironmentVariable&) const = default;
};

// The environment of every measured or training process. Memory is kept instead of being returned
// to the kernel and faulted in again (glibc's mallopt(3); on a CPU this is up to 20 % of a step),
// and every library computes with `threads` threads. Record it in the profile's settings.
std::vector<EnvironmentVariable> measuring_environment(int threads = 1);

}  // namespace lockstep
