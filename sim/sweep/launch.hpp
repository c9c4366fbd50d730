// Detects whether mpirun or srun started this process as one of several. Reads the environment, so
// it may be called before MPI_Init.
#pragma once

namespace lockstep {

struct Launch {
  int rank = 0, ranks = 1;
  const char* by = "";  // "mpirun", "srun", "an MPI launcher"
};
Launch launch_of_environment();

}  // namespace lockstep
