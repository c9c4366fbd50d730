// `lockstep recommend`: finds platform, GPU count, strategy, mesh, division of the batch and memory
// saver for a scenario's training run. Call recommend(), then convert the answer with
// recommendation_text() or recommendation_json(). Every candidate is simulated unless its memory or
// a lower bound of its time already rules it out, or, for meshes, the limit of simulations is
// reached.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "points/simulate.hpp"
#include "results/learning.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// The criterion that orders candidates; less is better.
enum class RankBy { cost, time, memory, energy };
inline constexpr std::array rank_names{"cost", "time", "memory", "energy"};

// Length of the shortlist, whose candidates are explained to the user.
constexpr std::size_t most_shortlisted = 5;

// Limits and search space of a recommendation; 0 = no limit.
struct RecommendOptions {
  double deadline = 0;                  // seconds of the whole run; 0 = no limit
  double budget = 0;                    // US dollars of the whole run; 0 = no limit
  double memory = 0;                    // usable bytes of a device; 0 = all of its memory
  std::vector<std::string> settings{};  // "PATH=VALUES" that change the scenario
  std::string gpus{};       // GPU counts, in the syntax of `--set gpus=`; "" = the scenario's
  std::string platforms{};  // platforms, in the syntax of `--set platform=`; "" = the scenario's
  // Share of the test set that must be classified correctly at the end of the run; 0 = no candidate
  // is trained.
  double min_accuracy = 0;
  std::size_t most_trainings = 12;  // largest number of trainings, each with all seeds
  // Prepares a candidate's scenario for training.
  // REQUIRES: set if min_accuracy > 0.
  std::function<PreparedTraining(const Scenario&)> prepare{};
  // If absent, candidates are ordered by cost; by time if there is a budget without a deadline, or
  // if some candidate has no price.
  std::optional<RankBy> by{};
  RunOptions run{};
};

// The results for a candidate that fits into memory.
struct Verdict {
  // Seconds of the mean step and of the whole run; price of the whole run, 0 = no price.
  double step = 0, total = 0, dollars = 0;
  int rented = 1;        // GPUs that are paid for; whole nodes may have more than the job uses
  double device = 0;     // peak bytes of device memory
  double staleness = 0;  // mean, in updates
  std::string bottleneck;
  StepError error;  // of the step
  // The strategy does not use autocast although the scenario's precision does: it computes in half
  // precision even the operators that autocast would compute in fp32.
  bool without_autocast = false;
  std::optional<Energy> energy;      // if the scenario has `energy`
  std::optional<SeedMean> accuracy;  // at the end of the run, if the candidate was trained
};

// A candidate that is better than a simpler one on the same GPUs, but by less than two predictions
// can distinguish. The simpler one precedes it in the ranking.
struct PassedOver {
  std::string strategy;
  double gain = 0;  // share of the simpler one's time that it would save
  double told = 0;  // smallest gain that the predictions could distinguish
  bool without_autocast = false;
};

// One configuration of the training run, and its verdict.
struct Candidate {
  std::string platform;
  int gpus = 1;
  std::string strategy;  // including its memory saver, such as "fsdp2 offload, checkpointing"
  std::string family;    // such as "FSDP"; "mesh" for all candidates with a mesh
  std::string mesh{};    // "tp8 pp4 1f1b"; "" = data parallelism only
  int complexity = 0;    // of the strategy's form (strategies/options.hpp); less is simpler
  std::int64_t micro = 1, accumulation = 1;  // samples of a micro-batch; micro-batches of a step
  // Settings with which `lockstep sweep` simulates exactly this candidate.
  std::vector<std::string> settings;
  // The scenario with this strategy. scenario_of() (candidates.hpp) replaces its GPUs, batch and
  // mesh. Similar candidates share it.
  std::shared_ptr<const Scenario> base{};
  ParallelOptions parallel{};
  Verdict verdict;
  std::optional<PassedOver> passed_over{};  // by this simpler one
};

// A column of the study's decision matrix with this run's numbers: the fastest candidate of a
// family, and the best values over all its candidates.
struct MatrixColumn {
  std::string family;
  Candidate fastest;
  double least_memory = 0;   // bytes, over all candidates of the family that fit
  double least_dollars = 0;  // over the same candidates; 0 = no price
  // Time of the fastest candidate with one GPU 30 % slower, relative to its normal time; 0 if it
  // has only one GPU or the slower run cannot be simulated.
  double uneven = 0;
  // If the slow GPU costs less than 0.5 % of the time: the hardware input of `explain` to which the
  // fastest candidate is most sensitive; otherwise "".
  std::string limit{};
};

// Candidates with a mesh by outcome; each is counted in `looked_at` and in one other number.
struct MeshCounts {
  std::size_t looked_at = 0;
  std::size_t refused = 0;    // do not divide, or are impossible for another reason
  std::size_t ruled_out = 0;  // by a bound, or by the limit of simulations
  std::size_t simulated = 0;  // all others, also if the exact memory is too large
};

// A setting that makes the recommended candidate at least 2 % faster.
struct FasterStill {
  std::string setting;          // for `lockstep sweep --set`
  double gain = 0;              // share of the step that it saves
  bool other_numerics = false;  // may change learning
};

// The answer of recommend().
struct Recommendation {
  RankBy by = RankBy::cost;
  std::vector<Candidate> ranked;  // all candidates that meet every limit, best first
  // Indices into `ranked` of the candidates on the Pareto front, ordered by time.
  std::vector<std::size_t> pareto;
  std::map<std::string, std::size_t> left_out;  // reason -> number of candidates
  std::size_t candidates = 0;                   // without combinations that do not divide
  std::vector<MatrixColumn> matrix;  // one column for each family with a candidate that fits
  MeshCounts meshes;
  // Settings that make the first candidate faster (torch.compile, CUDA graphs, fp8), largest gain
  // first. Empty if the scenario has a profile.
  std::vector<FasterStill> faster;
  std::size_t trainings = 0;  // number of trainings; candidates that learn the same share one
  std::map<std::string, double> learned;  // family -> best accuracy of its trained candidates
  std::vector<std::string> warnings;      // warnings of the trainings
};

// Upper bound of the energy of all boards in kWh; 0 if the energy is not known. Candidates are
// ranked by this bound, because the power of an idle board is not known.
inline double most_energy(const Verdict& v) {
  return v.energy ? v.energy->kilowatt_hours.high : 0;
}

// The number that candidates are ranked by; less is better.
double measure(const Candidate& candidate, RankBy by);

// Lower bound of a step's seconds, from its forward and backward only; 0 if stragglers allow no
// bound.
double least_step_seconds(const Point& point);

// The best candidate of each family on each platform and GPU count, as indices into `ranked`; at
// most most_shortlisted.
std::vector<std::size_t> shortlist(const std::vector<Candidate>& ranked);

// Enumerates, judges and ranks the candidates of the file's scenario. Throws ConfigError if the
// scenario lacks an input: a dataset for the length of the run, a platform's price for a budget,
// `convergence` for accuracy, or `energy` and the board's power for an order by energy. Also throws
// it if `dataset` gives the run's time, or counts steps without a global batch.
Recommendation recommend(const std::string& scenario_file, const RecommendOptions& options);

// The answer for people. It contains commands for `lockstep`, in which `scenario` and `settings`
// appear as the user gave them.
std::string recommendation_text(const Recommendation& recommendation, const std::string& scenario,
                                const std::vector<std::string>& settings = {});
// The answer for programs, and the layout of the JSON document.
std::string recommendation_json(const Recommendation& recommendation);
std::string recommendation_csv(const Recommendation& recommendation);
std::string recommendation_schema();  // JSON Schema (draft-07)
std::string recommendation_fields();  // Markdown table

}  // namespace lockstep
