// Detection of mpirun and srun: the place of this process among the ranks that a launcher has
// started. It reads environment variables only, so it may be called before MPI_Init and in a build
// without MPI.
#pragma once

namespace lockstep {

// The place of this process among its ranks; one rank if it was started alone.
struct Launch {
  int rank = 0, ranks = 1;
  const char* by = "";  // the launcher: "mpirun", "srun", "an MPI launcher"
};
Launch launch_of_environment();

}  // namespace lockstep
