// Jobs that ran on a Slurm cluster, read from the table that `sacct` prints. Used for cluster
// scenarios with a `trace:`; docs/cluster.md lists the columns and their meaning.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One job of the accounting, by the columns of sacct.
struct TracedJob {
  // JobID; JobName, "" = no such column.
  std::string id, name;
  // Seconds after the first submission of the trace.
  double submit = 0;
  // Seconds that the job ran on its GPUs.
  double elapsed = 0;
  // From AllocTRES, AllocGRES, ReqTRES or ReqGRES; 0 = they name no GPUs.
  int gpus = 0;
  // From NNodes, AllocNodes or ReqNodes; 0 = not stated. Gives the GPUs where `gpus` is 0.
  int nodes = 0;
  // The job's time limit in seconds; 0 = none.
  double limit = 0;
  // A TRES list is there and names no GPUs.
  bool on_cpus = false;
  // Line in the file, for errors found later.
  int line = 0;
};

// The jobs that ran, and how many rows were left out for which reason.
struct SacctTrace {
  // In the order of their submission.
  std::vector<TracedJob> jobs;
  // Number of jobs by reason: "that never ran", "on CPUs", ...
  std::map<std::string, int> left_out;
  // Number of `jobs` that had not ended when sacct printed them; their length is the time so far.
  int running = 0;
};

// Leaves out steps of jobs (`12.batch`), jobs of partitions other than `partition` (unless that is
// ""), jobs that never ran, and CPU jobs if any TRES list of the file names GPUs. Cells are
// separated by commas, or by | as `sacct -P` does. Columns that are not listed here are ignored.
// Throws ConfigError with every malformed row as file:line.
SacctTrace read_sacct_text(std::string_view text, const std::string& file,
                           const std::string& partition = "");
SacctTrace read_sacct(const std::string& file, const std::string& partition = "");

}  // namespace lockstep
