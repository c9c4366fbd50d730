// Reads jobs that ran on a Slurm cluster, as `sacct` prints them. Used for cluster scenarios with a
// trace.
#pragma once

#include <map>
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

struct SacctTrace {
  std::vector<TracedJob> jobs;          // in the order of their submission
  std::map<std::string, int> left_out;  // jobs by reason: "never ran", "on CPUs", ...
  int running = 0;                      // of `jobs`: had not ended when sacct printed them
};

// Leaves out steps of jobs (`12.batch`), jobs of partitions other than `partition` (unless that is
// ""), jobs that never ran, and CPU jobs if any TRES list of the file names GPUs. Cells are
// separated by commas, or by | as `sacct -P` does. Columns that are not listed here are ignored.
// Throws ConfigError with every malformed row as file:line.
SacctTrace read_sacct_text(std::string_view text, const std::string& file,
                           const std::string& partition = "");
SacctTrace read_sacct(const std::string& file, const std::string& partition = "");

}  // namespace lockstep
