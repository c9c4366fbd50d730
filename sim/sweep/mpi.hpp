// A sweep spread over MPI ranks. Used if the program was started by mpirun or srun. Rank 0 hands
// out row numbers and keeps the rows. Every rank, including rank 0, simulates on worker processes
// of its own, so that a crash costs no rank.
#pragma once

#include "sweep/sweep.hpp"

namespace lockstep {

// Initializes MPI and finalizes it at the end of its life. REQUIRES: one object per process.
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

// As run_sweep(), on all ranks together; every rank must call it. `rows`: the file on rank 0, null
// on the others. Throws ConfigError if the ranks have different sweeps. If the sweep is stopped,
// rank 0 syncs its rows and ends all ranks (MPI_Abort).
void run_sweep_on_ranks(const MpiSession& session, const SweepPlan& plan, const InputFiles& files,
                        RowsFile* rows, const SweepOptions& options);

}  // namespace lockstep
