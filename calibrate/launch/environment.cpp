// Sets glibc's malloc thresholds (mallopt(3)) and the numbers of threads of OpenMP, MKL and
// OpenBLAS. The libraries read both before main(), so the measuring process cannot set them itself.
#include "launch/environment.hpp"

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

}  // namespace lockstep
