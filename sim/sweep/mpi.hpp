// Runs a sweep on MPI ranks if mpirun or srun has started the program. Rank 0 distributes row
// numbers and stores the rows. Every rank, including rank 0, simulates in worker processes of its
// own, so a crash of a simulation ends no rank.
#pragma once

#include "sweep/sweep.hpp"

namespace lockstep {

// Initialises MPI, and finalises it when the object ends.
// REQUIRES: one object per process.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  int rank_ = 0, ranks_ = 1;
};

// Runs the sweep like run_sweep(), on all ranks together. If options.workers is 0, each rank has
// one child process, because launchers start one rank per core. `rows` is the file on rank 0, and
// null on the other ranks. Throws ConfigError if the ranks have different sweeps. If the user stops
// the sweep, rank 0 syncs its rows and ends all ranks (MPI_Abort).
// REQUIRES: every rank calls it.
void run_sweep_on_ranks(const MpiSession& session, const SweepPlan& plan, const InputFiles& files,
                        RowsFile* rows, const SweepOptions& options);

}  // namespace lockstep
