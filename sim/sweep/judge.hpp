// Judges a candidate's job: does it meet the limits, and what are its time, price and memory? Lower
// bounds come first, then memory, then the simulation. Judge runs in worker processes, which send
// judgements to the parent as text.
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

// The outcome of a candidate.
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

  // Judges the jobs in order. A job is not simulated if it does not fit into memory, or if its
  // compute or its communication takes longer than the deadline or costs more than the budget, each
  // counted without the rest of the step. It is not simulated either if its compute or its
  // communication takes longer than the whole run with a larger micro-batch, because it is then
  // neither faster nor cheaper. This last rule does not apply to the smallest micro-batch, which
  // needs least memory, and with RankBy::memory to no micro-batch.
  std::vector<Judgement> judge(const Group& group, const Report& report);

  // Judges one job. Leaves it out if its run certainly takes longer than `fastest` seconds.
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
