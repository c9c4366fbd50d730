// `lockstep recommend`: finds platform, GPU count, strategy, batch split and memory saver for a
// scenario's training run. Call recommend(), then render the answer by recommendation_text() or
// recommendation_json(). Every candidate is simulated, unless its compute alone rules it out.
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

enum class RankBy { cost, time, memory, energy };
inline constexpr std::array rank_names{"cost", "time", "memory", "energy"};

constexpr std::size_t most_shortlisted = 5;

struct RecommendOptions {
  double deadline = 0;                  // seconds of the whole run; 0 = any
  double budget = 0;                    // USD
  double memory = 0;                    // usable bytes of a device; 0 = all of its memory
  std::vector<std::string> settings{};  // "PATH=VALUES" that change the scenario
  std::string gpus{};                   // values of a --set; "" = the scenario's
  std::string platforms{};
  double min_accuracy = 0;  // share of the test set at the end of the run; 0 = nothing is trained
  std::size_t most_trainings = 12;  // of candidates that learn differently, all seeds of each
  // Prepares a candidate's scenario for training; needed with min_accuracy.
  std::function<PreparedTraining(const Scenario&)> prepare{};
  std::optional<RankBy> by{};  // default: cost, or time with a budget and no deadline or no price
  RunOptions run{};
};

struct Verdict {
  double step = 0, total = 0, dollars = 0;  // dollars: 0 = no price
  int rented = 1;                           // GPUs that are paid: whole nodes have more
  double device = 0;                        // bytes of device memory, peak
  double staleness = 0;                     // mean
  std::string bottleneck;
  StepError error;  // of the step
  bool without_autocast =
      false;  // computes in half precision what the scenario's precision does not
  std::optional<Energy> energy;      // where the scenario asks for it
  std::optional<SeedMean> accuracy;  // where it was trained, at the end of the run
};

// A candidate that is better than the recommended one, but by less than two predictions can
// distinguish.
struct PassedOver {
  std::string strategy;
  double gain = 0;  // share of the time
  double told = 0;  // the smallest gain that would have been distinguished
  bool without_autocast = false;
};

struct Candidate {
  std::string platform;
  int gpus = 1;
  std::string strategy;  // "fsdp2 offload, checkpointing"
  std::string family;    // "FSDP"; "mesh" of all that have one
  std::string mesh{};    // "tp8 pp4 1f1b"; "" = only data parallelism
  int complexity = 0;    // of its form (strategies/options.hpp)
  std::int64_t micro = 1, accumulation = 1;
  std::vector<std::string> settings;       // of `lockstep sweep`: gives this point alone
  std::shared_ptr<const Scenario> base{};  // without GPUs, batch and mesh
  ParallelOptions parallel{};
  Verdict verdict;
  std::optional<PassedOver> passed_over{};  // on the same GPUs, as this strategy is simpler
};

// A column of the study's decision matrix with this run's numbers: the best candidate of a family,
// by time, and its figures.
struct MatrixColumn {
  std::string family;
  Candidate fastest;
  double least_memory = 0;   // of any candidate of the family that fits
  double least_dollars = 0;  // 0 = no price
  // Time of the fastest with one GPU 30 % slower, over its own; 0 = 1 GPU. The limit of the fastest
  // candidate other than its GPUs, if the slow GPU costs nothing: an input of `explain`.
  double uneven = 0;
  std::string limit{};
};

// Counts of meshes by outcome; each mesh is counted once.
struct MeshCounts {
  std::size_t looked_at = 0;
  std::size_t refused = 0;    // meshes that do not divide, or are impossible
  std::size_t ruled_out = 0;  // by a bound of time or memory
  std::size_t simulated = 0;  // the others, or their memory alone where that is too much
};

// A setting that makes the recommended candidate faster.
struct FasterStill {
  std::string setting;          // of `lockstep sweep`
  double gain = 0;              // share of the step
  bool other_numerics = false;  // may change learning
};

struct Recommendation {
  RankBy by = RankBy::cost;
  std::vector<Candidate> ranked;    // all that meet every limit, best first
  std::vector<std::size_t> pareto;  // of ranked: none is better in all that is known at once
  std::map<std::string, std::size_t> left_out;  // reason -> candidates
  std::size_t candidates = 0;                   // that were looked at
  std::vector<MatrixColumn> matrix;             // of families that have a candidate that fits
  MeshCounts meshes;
  std::vector<FasterStill>
      faster;                 // torch.compile, CUDA graphs, fp8 for the first, largest gain first
  std::size_t trainings = 0;  // of candidates that learn differently
  std::map<std::string, double> learned;  // the most that one of a family did
  std::vector<std::string> warnings;      // about these
};

// The largest energy in kWh that the boards may draw, 0 if the scenario does not ask. The saving of
// an idle board is not known.
inline double most_energy(const Verdict& v) {
  return v.energy ? v.energy->kilowatt_hours.high : 0;
}

// The figure that candidates are ranked by; less is better.
double measure(const Candidate& candidate, RankBy by);

// Lower bound of a step: its forward and backward alone.
double least_step_seconds(const Point& point);

// The best of each family on each platform and GPU count, as indices into `ranked`.
std::vector<std::size_t> shortlist(const std::vector<Candidate>& ranked);

// Throws ConfigError if the scenario lacks an input: a dataset for the length of the run, a
// platform's price for a budget, `convergence` for accuracy, `energy` for an order by energy.
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
