// Reads the jobs that ran on a Slurm cluster from the table that `sacct` prints. question.cpp uses
// it for cluster scenarios with a `trace:`. docs/cluster.md lists the columns and their meaning.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One row of sacct's table.
struct TracedJob {
  // `id`: JobID. `name`: JobName; "" if the file has no such column.
  std::string id, name;
  // Seconds after the first submission of the trace.
  double submit = 0;
  // Seconds that the job ran on its GPUs.
  double elapsed = 0;
  // From AllocTRES, AllocGRES, ReqTRES or ReqGRES; 0 = they name no GPUs.
  int gpus = 0;
  // From NNodes, AllocNodes or ReqNodes; 0 = not stated. If `gpus` is 0, the job had all GPUs of so
  // many nodes.
  int nodes = 0;
  // The job's time limit in seconds; 0 = none.
  double limit = 0;
  // The row has a TRES list, and the row names no GPUs.
  bool on_cpus = false;
  // Line in the file, for errors found later.
  int line = 0;
};

// The jobs that ran, and how many rows were left out for which reason.
struct SacctTrace {
  // In the order of their submission.
  std::vector<TracedJob> jobs;
  // Number of jobs by reason, for example "that never ran" or "on CPUs".
  std::map<std::string, int> left_out;
  // Number of `jobs` that had not ended when sacct printed them; their length is the time so far.
  int running = 0;
};

// Leaves out steps of jobs (`12.batch`), jobs of partitions other than `partition` (unless
// `partition` is ""), and jobs that never ran. If any job of the file has GPUs, jobs on CPUs are
// also left out. Cells are separated by commas, or by | as `sacct -P` does. Columns that
// docs/cluster.md does not list are ignored. Throws ConfigError with every malformed row as
// file:line, or if no job is left.
SacctTrace read_sacct_text(std::string_view text, const std::string& file,
                           const std::string& partition = "");
SacctTrace read_sacct(const std::string& file, const std::string& partition = "");

}  // namespace lockstep
