// A sweep spread over MPI ranks. Used if the program was started by mpirun or srun. Rank 0 hands
// out row numbers and keeps the rows. Every rank, including rank 0, simulates on worker processes
// of its own, so that a crash costs no rank.
#pragma once

#include "sweep/sweep.hpp"

namespace lockstep {

// Lasts from MPI_Init to MPI_Finalize.
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

// As run_sweep(). `rows`: on rank 0 only, null on others. Throws ConfigError if ranks were given
// different sweeps. If the sweep is stopped, no rank survives (MPI_Abort), but rank 0's rows are on
// the disk.
void run_sweep_on_ranks(const MpiSession& session, const SweepPlan& plan, const InputFiles& files,
                        RowsFile* rows, const SweepOptions& options);

}  // namespace lockstep
