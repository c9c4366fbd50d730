// Detects mpirun and srun: finds the rank of this process among the processes that a launcher has
// started. It reads only environment variables, so it works before MPI_Init and in a build without
// MPI.
#pragma once

namespace lockstep {

// The rank of this process and the number of ranks; one rank if no launcher started it.
struct Launch {
  int rank = 0, ranks = 1;
  const char* by = "";  // the launcher: "mpirun", "srun", "an MPI launcher"
};
Launch launch_of_environment();

}  // namespace lockstep
