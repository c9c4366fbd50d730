// Judges a candidate's job: can it meet the limits, and what are its time, price and memory? Lower
// bounds of the time come first, then memory, then the simulation. Judge runs in worker processes,
// which send judgements to the parent as text.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "points/inputs.hpp"
#include "points/pool.hpp"
#include "points/workloads.hpp"
#include "sweep/recommend.hpp"

namespace lockstep {

// The outcome of a candidate. A simulated job has a verdict even if its exact time exceeds deadline
// or budget; recommend() checks this.
struct Judgement {
  std::optional<Verdict> verdict;  // absent if the candidate is left out
  std::string left_out;            // the reason why there is no verdict
};

// Reasons that several files use.
inline constexpr const char* too_large = "needs more memory than a GPU may use";
inline constexpr const char* misses_deadline = "misses the deadline";
inline constexpr const char* exceeds_budget = "exceeds the budget";

// Convert judgements to text in a worker process, and back in its parent.
std::string judgements_text(const std::vector<Judgement>& list);
std::vector<Judgement> read_judgements(const std::string& text);

// Number of GPUs that are paid for: all GPUs of the used nodes, because clouds rent whole nodes, or
// only the GPUs in use if the scenario gives its own price.
int rented_gpus(const Scenario& scenario, int gpus, const Machine& machine);

// Jobs that differ only in the micro-batch, the largest micro-batch first.
using Group = std::vector<Scenario>;

// Judges jobs one after the other. Caches files, computed steps, and memory of equal steps; use one
// object per process.
class Judge {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();  // no limit of time

  Judge(const InputFiles& files, const RecommendOptions& options)
      : files_(files), options_(options) {}

  // Judges the jobs in order. Two lower bounds of a run's time are computed first: its compute
  // without communication, and its communication without compute. A job is not simulated in three
  // cases: it does not fit into memory; a bound exceeds the deadline, or its price the budget; a
  // bound exceeds the time of the whole run with a larger micro-batch, so that the job is neither
  // faster nor cheaper. The third case does not apply to the smallest micro-batch, because it needs
  // least memory. It applies to no job with RankBy::memory.
  std::vector<Judgement> judge(const Group& group, const Report& report);

  // Judges one job by the same rules; `fastest` is the time of the run with a larger micro-batch,
  // in seconds, or `never`.
  Judgement judge(const Scenario& scenario, double fastest, const Report& report);

 private:
  // The parameters of the call to the memory model.
  MemoryQuery memory_asked(const Job& job);

  InputFiles files_;
  Workloads workloads_;
  std::map<std::shared_ptr<const TrainingStep>, KnownMemory> known_;
  RecommendOptions options_;
};

// Judges all groups in worker processes and returns one judgement per job, in order. If the process
// of a group fails, its jobs get judgements with the reason of the failure.
std::vector<Judgement> judge_groups(const InputFiles& files, const std::vector<Group>& groups,
                                    const RecommendOptions& options);
// Number of worker processes: run.workers, or one per core if that is 0.
int workers_of(const RunOptions& run);

}  // namespace lockstep
