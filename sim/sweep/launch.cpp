// Reads the environment variables of Open MPI, MPICH and Slurm. The first launcher in the list that
// reports more than one rank counts.
#include "sweep/launch.hpp"

#include <array>
#include <cstdlib>

namespace lockstep {

namespace {

// The variables of one launcher.
struct Variables {
  const char *rank, *ranks, *by;
};
// Variables of Open MPI's mpirun, of PMI (MPICH and others), and of a job step of Slurm's srun.
// SLURM_NTASKS is not used, because it describes the allocation: a batch script also has it, but is
// one process.
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
