// Jobs that ran on a cluster of Slurm's, as `sacct` prints them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct TracedJob {
  std::string id, name;  // JobID, JobName ("" = no such column)
  double submit = 0;     // seconds, of the first 0
  double elapsed = 0;
  int gpus = 0;          // of AllocTRES, AllocGRES, ReqTRES, ReqGRES; 0 = they name none,
  int nodes = 0;         // then there may be nodes (NNodes, AllocNodes, ReqNodes)
  double limit = 0;      // 0 = none
  bool on_cpus = false;  // a TRES list is there and names no GPUs
  int line = 0;
};

// Jobs in the order of their submission, without the steps of a job (`12.batch`), without jobs that
// never ran, and without jobs on CPUs where any TRES list of the file names GPUs. Separators are those of `sacct --csv`-like exports (,) or of `sacct -P` (|).
// Columns that are not listed here are ignored. Throws ConfigError with every malformed row as
// file:line.
std::vector<TracedJob> read_sacct_text(std::string_view text, const std::string& file);
std::vector<TracedJob> read_sacct(const std::string& file);

}  // namespace lockstep
