// Says of a candidate's job whether it keeps the limits, and with which figures. Worker processes do it.
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
  std::string left_out;  // why there is none
};

inline constexpr const char* too_large = "needs more memory than a GPU may use";
inline constexpr const char* misses_deadline = "misses the deadline";
inline constexpr const char* exceeds_budget = "exceeds the budget";

// Between a worker process and its parent.
std::string judgements_text(const std::vector<Judgement>& list);
std::vector<Judgement> read_judgements(const std::string& text);

// GPUs that are paid. Clouds rent whole nodes; a scenario that gives a price of its own prices the GPUs in use.
int rented_gpus(const Scenario& scenario, int gpus, const Machine& machine);

// Jobs that differ in the micro-batch only, from the largest on.
using Group = std::vector<Scenario>;

class Judge {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  Judge(const InputFiles& files, const RecommendOptions& options)
      : files_(files), options_(options) {}

  // One is not simulated when it does not fit, when the compute of a step alone, or its
  // communication, takes it over a limit, or takes longer than a whole step of a larger micro-batch
  // that is within the limits: then it is neither faster nor cheaper. The smallest is, as it needs
  // least memory.
  std::vector<Judgement> judge(const Group& group, const Report& report);

  // One job; what takes longer than `fastest` seconds for certain is left out.
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
