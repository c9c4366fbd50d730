// Whether this process is one of several that mpirun or srun started, as the environment says
// before MPI does.
#pragma once

namespace lockstep {

struct Launch {
  int rank = 0, ranks = 1;
  const char* by = "";  // "mpirun", "srun", "an MPI launcher"
};
Launch launch_of_environment();

}  // namespace lockstep
