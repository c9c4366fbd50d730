// `lockstep recommend`: finds platform, GPU count, strategy, mesh, batch split and memory saver for
// a scenario's training run. Call recommend(), then render the answer by recommendation_text() or
// recommendation_json(). Every candidate is simulated, unless a lower bound of its time or memory
// already rules it out.
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

// The figure by which candidates are ordered; less is better.
enum class RankBy { cost, time, memory, energy };
inline constexpr std::array rank_names{"cost", "time", "memory", "energy"};

// Length of the shortlist that is explained to the user.
constexpr std::size_t most_shortlisted = 5;

// Limits and search space of a recommendation; 0 = no limit.
struct RecommendOptions {
  double deadline = 0;                  // seconds of the whole run; 0 = any
  double budget = 0;                    // US dollars of the whole run; 0 = any
  double memory = 0;                    // usable bytes of a device; 0 = all of its memory
  std::vector<std::string> settings{};  // "PATH=VALUES" that change the scenario
  std::string gpus{};                   // values of a --set; "" = the scenario's
  std::string platforms{};              // values of `platform=`; "" = the scenario's
  double min_accuracy = 0;  // share of the test set at the end of the run; 0 = nothing is trained
  std::size_t most_trainings = 12;  // candidates that learn differently, with all seeds of each
  // Prepares a candidate's scenario for training. REQUIRES: set if min_accuracy > 0.
  std::function<PreparedTraining(const Scenario&)> prepare{};
  // Absent = cost; or time, if there is a budget without a deadline, or a candidate has no price.
  std::optional<RankBy> by{};
  RunOptions run{};
};

// The figures of a candidate that fits.
struct Verdict {
  // Seconds of the mean step and of the whole run; price of the whole run, 0 = none.
  double step = 0, total = 0, dollars = 0;
  int rented = 1;        // GPUs that are paid for; whole nodes may have more than the job uses
  double device = 0;     // bytes of device memory, peak
  double staleness = 0;  // mean, in updates
  std::string bottleneck;
  StepError error;  // of the step
  // The strategy computes in half precision also the operators that the autocast of the scenario's
  // precision keeps in fp32.
  bool without_autocast = false;
  std::optional<Energy> energy;      // where the scenario asks for it
  std::optional<SeedMean> accuracy;  // where it was trained, at the end of the run
};

// A candidate that is better than the recommended one, but by less than two predictions can
// distinguish.
struct PassedOver {
  std::string strategy;
  double gain = 0;  // share of the time that it would save
  double told = 0;  // smallest gain that could be distinguished
  bool without_autocast = false;
};

// A way to run the training, and its verdict.
struct Candidate {
  std::string platform;
  int gpus = 1;
  std::string strategy;  // with its memory saver, such as "fsdp2 offload, checkpointing"
  std::string family;    // such as "FSDP"; "mesh" for all candidates with a mesh
  std::string mesh{};    // "tp8 pp4 1f1b"; "" = data parallelism only
  int complexity = 0;    // of the strategy's form (strategies/options.hpp); less is simpler
  std::int64_t micro = 1, accumulation = 1;  // samples of a micro-batch; micro-batches of a step
  // Settings with which `lockstep sweep` simulates exactly this point.
  std::vector<std::string> settings;
  // The scenario with this strategy, but without GPUs, batch and mesh; shared by similar
  // candidates.
  std::shared_ptr<const Scenario> base{};
  ParallelOptions parallel{};
  Verdict verdict;
  std::optional<PassedOver> passed_over{};  // on the same GPUs, as this strategy is simpler
};

// A column of the study's decision matrix with this run's numbers: the fastest candidate of a
// family, and the best figures of all its candidates.
struct MatrixColumn {
  std::string family;
  Candidate fastest;
  double least_memory = 0;   // bytes, over all candidates of the family that fit
  double least_dollars = 0;  // likewise; 0 = no price
  // Time of the fastest with one GPU 30 % slower, relative to its own time; 0 = it has one GPU.
  double uneven = 0;
  // If the slow GPU costs nothing: the input of `explain` to which the fastest is most sensitive.
  std::string limit{};
};

// Candidates with a mesh by outcome; each is counted once.
struct MeshCounts {
  std::size_t looked_at = 0;
  std::size_t refused = 0;    // do not divide, or are impossible
  std::size_t ruled_out = 0;  // by a bound of time or memory
  std::size_t simulated = 0;  // all others; of some only the memory, if it is too large
};

// A setting that makes the recommended candidate faster.
struct FasterStill {
  std::string setting;          // of `lockstep sweep`
  double gain = 0;              // share of the step
  bool other_numerics = false;  // may change learning
};

// The answer of recommend().
struct Recommendation {
  RankBy by = RankBy::cost;
  std::vector<Candidate> ranked;  // all candidates that meet every limit, best first
  // Indices into `ranked` of the candidates on the Pareto front, by time.
  std::vector<std::size_t> pareto;
  std::map<std::string, std::size_t> left_out;  // reason -> number of candidates
  std::size_t candidates = 0;                   // all that were looked at
  std::vector<MatrixColumn> matrix;             // of families with a candidate that fits
  MeshCounts meshes;
  // Settings that make the first candidate faster: torch.compile, CUDA graphs, fp8; largest gain
  // first.
  std::vector<FasterStill> faster;
  std::size_t trainings = 0;              // trained candidates that learn differently
  std::map<std::string, double> learned;  // family -> best accuracy that was reached
  std::vector<std::string> warnings;      // of the trainings
};

// Upper bound of the energy of all boards in kWh; 0 if the scenario does not ask for energy. A
// lower bound is no basis for ranking, since the power of an idle board is not known.
inline double most_energy(const Verdict& v) {
  return v.energy ? v.energy->kilowatt_hours.high : 0;
}

// The figure that candidates are ranked by; less is better.
double measure(const Candidate& candidate, RankBy by);

// Lower bound of a step's seconds from its forward and backward alone; 0 if the ranks' stragglers
// allow no bound.
double least_step_seconds(const Point& point);

// The best of each family on each platform and GPU count, as indices into `ranked`.
std::vector<std::size_t> shortlist(const std::vector<Candidate>& ranked);

// Enumerates, judges and ranks the candidates of the file's scenario. Throws ConfigError if the
// scenario lacks an input: a dataset for the length of the run, a platform's price for a budget,
// `convergence` for accuracy, `energy` for an order by energy.
Recommendation recommend(const std::string& scenario_file, const RecommendOptions& options);

// For people. Names the scenario as a command line does, with the settings that change it.
std::string recommendation_text(const Recommendation& recommendation, const std::string& scenario,
                                const std::vector<std::string>& settings = {});
// For programs.
std::string recommendation_json(const Recommendation& recommendation);
std::string recommendation_csv(const Recommendation& recommendation);
std::string recommendation_schema();  // JSON Schema (draft-07)
std::string recommendation_fields();  // Markdown table

}  // namespace lockstep
