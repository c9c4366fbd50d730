// Judgement of a candidate's job: whether it keeps the limits, and its figures. Bounds come first,
// then memory, then the simulation. It runs in worker processes; judgements travel to the parent as
// text.
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
  std::optional<Verdict> verdict;  // absent = left out
  std::string left_out;            // the reason why there is no verdict
};

// Reasons that several files use.
inline constexpr const char* too_large = "needs more memory than a GPU may use";
inline constexpr const char* misses_deadline = "misses the deadline";
inline constexpr const char* exceeds_budget = "exceeds the budget";

// Judgements as text from a worker process to its parent, and back.
std::string judgements_text(const std::vector<Judgement>& list);
std::vector<Judgement> read_judgements(const std::string& text);

// Number of GPUs that are paid for. Clouds rent whole nodes; a scenario that gives a price of its
// own prices the GPUs in use.
int rented_gpus(const Scenario& scenario, int gpus, const Machine& machine);

// Jobs that differ in the micro-batch only, the largest first.
using Group = std::vector<Scenario>;

// Judges jobs one after the other. Keeps files, priced steps and memory of equal steps between
// jobs; one object per process.
class Judge {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();  // no limit of time

  Judge(const InputFiles& files, const RecommendOptions& options)
      : files_(files), options_(options) {}

  // Judges the jobs in order. A job is not simulated if it does not fit into memory, or if the
  // compute or the communication of its steps alone takes longer than the deadline or costs more
  // than the budget. A job is not simulated either if its compute or communication alone takes
  // longer than the whole run with a larger micro-batch: it is neither faster nor cheaper. The
  // smallest micro-batch is exempt from this last rule, because it needs least memory; with
  // RankBy::memory all micro-batches are exempt.
  std::vector<Judgement> judge(const Group& group, const Report& report);

  // Judges one job. It is left out if its run certainly takes longer than `fastest` seconds.
  Judgement judge(const Scenario& scenario, double fastest, const Report& report);

 private:
  // The question to the memory model.
  MemoryQuery memory_asked(const Job& job);

  InputFiles files_;
  Workloads workloads_;
  std::map<std::shared_ptr<const TrainingStep>, KnownMemory> known_;
  RecommendOptions options_;
};

// Judges all groups on worker processes and returns one judgement per job, in order. A group whose
// process fails gets judgements with the reason of the failure.
std::vector<Judgement> judge_groups(const InputFiles& files, const std::vector<Group>& groups,
                                    const RecommendOptions& options);
// Worker processes of a run: as asked for, or one per core.
int workers_of(const RunOptions& run);

}  // namespace lockstep
