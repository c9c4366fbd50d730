// Judges a candidate's job: whether it keeps the limits, and its figures. Runs in worker processes.
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
  std::optional<Verdict> verdict;
  std::string left_out;  // the reason why there is no verdict
};

inline constexpr const char* too_large = "needs more memory than a GPU may use";
inline constexpr const char* misses_deadline = "misses the deadline";
inline constexpr const char* exceeds_budget = "exceeds the budget";

// Serialised form, from a worker process to its parent.
std::string judgements_text(const std::vector<Judgement>& list);
std::vector<Judgement> read_judgements(const std::string& text);

// Number of GPUs that are paid for. Clouds rent whole nodes; a scenario that gives a price of its
// own prices the GPUs in use.
int rented_gpus(const Scenario& scenario, int gpus, const Machine& machine);

// Jobs that differ in the micro-batch only, the largest first.
using Group = std::vector<Scenario>;

class Judge {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  Judge(const InputFiles& files, const RecommendOptions& options)
      : files_(files), options_(options) {}

  // Judges the jobs in order. A job is not simulated if it does not fit, or if the compute or the
  // communication of a step alone exceeds a limit. The same holds for a job whose compute or
  // communication alone takes longer than a whole step of a larger micro-batch: it is neither
  // faster nor cheaper. The smallest micro-batch is exempt from this last rule, because it needs
  // least memory.
  std::vector<Judgement> judge(const Group& group, const Report& report);

  // Judges one job; it is left out if it certainly takes longer than `fastest` seconds.
  Judgement judge(const Scenario& scenario, double fastest, const Report& report);

 private:
  MemoryQuery memory_asked(const Job& job);

  InputFiles files_;
  Workloads workloads_;
  std::map<std::shared_ptr<const TrainingStep>, KnownMemory> known_;
  RecommendOptions options_;
};

// The outcome of each candidate, in order, from worker processes.
std::vector<Judgement> judge_groups(const InputFiles& files, const std::vector<Group>& groups,
                                    const RecommendOptions& options);
int workers_of(const RunOptions& run);

}  // namespace lockstep
