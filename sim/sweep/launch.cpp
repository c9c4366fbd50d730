// Reads the environment variables of Open MPI, MPICH and Slurm.
#include "sweep/launch.hpp"

#include <array>
#include <cstdlib>

namespace lockstep {

namespace {

struct Variables {
  const char *rank, *ranks, *by;
};
// Open MPI's mpirun; PMI of MPICH and others; a step of Slurm's srun. The allocation's own
// SLURM_NTASKS is no evidence: a batch script is one process.
constexpr std::array launchers{Variables{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"},
                               Variables{"PMI_RANK", "PMI_SIZE", "an MPI launcher"},
                               Variables{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"}};

}  // namespace

Launch launch_of_environment() {
  for (const Variables& launcher : launchers) {
    const char* rank = std::getenv(launcher.rank);
    const char* ranks = std::getenv(launcher.ranks);
    if (rank != nullptr && ranks != nullptr && std::atoi(ranks) > 1) {
      return {std::atoi(rank), std::atoi(ranks), launcher.by};
    }
  }
  return {};
}

}  // namespace lockstep
