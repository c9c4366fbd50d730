#include "launch/environment.hpp"

#include <cstdlib>

namespace lockstep {

std::vector<EnvironmentVariable> measuring_environment(int threads) {
  std::vector<EnvironmentVariable> all{{"MALLOC_MMAP_MAX_", "0"},
                                       {"MALLOC_TRIM_THRESHOLD_", "8589934592"},
                                       {"MALLOC_TOP_PAD_", "67108864"}};
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    all.push_back({name, std::to_string(threads)});
  }
  return all;
}

std::vector<EnvironmentVariable> missing_from_environment(
    const std::vector<EnvironmentVariable>& wanted) {
  std::vector<EnvironmentVariable> missing;
  for (const auto& variable : wanted) {
    const char* value = std::getenv(variable.name.c_str());
    if (!value || variable.value != value) missing.push_back(variable);
  }
  return missing;
}

}  // namespace lockstep
