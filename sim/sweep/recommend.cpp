// Finds a recommendation in five steps: enumerate candidates, judge them in worker processes, rank
// the candidates that meet every limit, train the best if an accuracy is required, fill the
// decision matrix. judge.cpp and mesh_search.cpp judge the candidates.
#include "sweep/recommend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>

#include "core/units.hpp"
#include "questions/advice.hpp"
#include "questions/explain.hpp"
#include "results/cells.hpp"
#include "sweep/candidates.hpp"
#include "sweep/judge.hpp"
#include "sweep/mesh_search.hpp"
#include "sweep/ranking.hpp"

namespace lockstep {

namespace {

// Reasons why a candidate was not trained.
constexpr const char* shortlist_full = "not trained: the shortlist was full";
constexpr const char* enough_trained = "not trained: enough were (--trainings)";
constexpr const char* nearly_trained =
    "not trained: one of its kind was, with another batch split or memory saver";

// The limit that a simulated candidate exceeds; "" = none.
std::string fault(const Verdict& v, const RecommendOptions& options) {
  if (options.deadline > 0 && v.total > options.deadline) return misses_deadline;
  if (options.budget > 0 && v.dollars > options.budget) return exceeds_budget;
  return "";
}

// The shortlist has at most one candidate with the same text.
std::string shortlist_kind(const Candidate& c) {
  return fmt::format("{}/{}/{}", c.platform, c.gpus, c.family);
}

// A key that is equal for candidates that certainly learn the same. Synchronous ranks with equal
// numbers of GPUs and samples learn the same with every memory saver. The updates of parameter
// servers are known only from their simulation, so each such candidate has a key of its own.
std::string learns_as(const Candidate& c) {
  if (make_strategy(c.base->strategies.front().options)->servers() == 0) {
    return fmt::format("{} GPUs of {} samples", c.gpus, c.micro * c.accumulation);
  }
  return fmt::to_string(fmt::join(c.settings, " "));
}

// The outcome of one training.
struct Learner {
  std::optional<SeedMean> accuracy;  // absent if it could not be trained
  std::set<std::string> who;         // candidates that learn like this, such as "DDP on 4 GPUs"
};

bool reaches(const Learner& learner, double accuracy) {
  return learner.accuracy && learner.accuracy->mean >= accuracy;
}

// All trainings so far. One training serves every candidate with the same key.
class Learners {
 public:
  explicit Learners(const RecommendOptions& options) : options_(options) {}

  // The training of a candidate; null if no candidate with its key was trained.
  Learner* find(const Candidate& c) {
    const auto known = keys_.find(learns_as(c));
    return known == keys_.end() ? nullptr : &learners_.at(known->second);
  }

  // Trains the candidate unless the largest number of trainings is reached.
  void train(const Candidate& c, std::vector<std::string>& warnings) {
    const PreparedTraining training = options_.prepare(scenario_of(c));
    if (learners_.count(training.key) == 0) {
      if (learners_.size() >= options_.most_trainings) return;
      const TrainedPoint trained = training.train();
      for (const std::string& warning : trained.warnings) {
        if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
          warnings.push_back(warning);
      }
      Learner& learner = learners_[training.key];
      if (const auto& a = trained.accuracy) learner.accuracy = {a->last, a->last_interval};
    }
    keys_[learns_as(c)] = training.key;
  }

  std::size_t size() const { return learners_.size(); }

 private:
  const RecommendOptions& options_;
  std::map<std::string, std::string> keys_;  // learns_as() -> key of the prepared training
  std::map<std::string, Learner> learners_;  // by the key of the prepared training
};

// The reason to exclude a candidate whose accuracy is too low.
std::string below(const Learner& learner, double accuracy) {
  const Interval& within = learner.accuracy->interval;
  return fmt::format("below {}: {} learn{} to {} ({} .. {})", percent(accuracy),
                     fmt::join(learner.who, ", "), learner.who.size() == 1 ? "s" : "",
                     percent(learner.accuracy->mean), percent(within.low), percent(within.high));
}

// Trains candidates of the shortlist until it is full or the largest number of trainings is
// reached. Removes all ranked candidates that are not known to reach the accuracy. For parameter
// servers, only the best candidate of each kind is trained; other divisions of the batch and other
// memory savers are not.
void keep_what_learns(const RecommendOptions& options, Recommendation& answer) {
  Learners learners(options);
  std::set<std::string> listed, tried;  // texts of shortlist_kind()
  // Training takes long: the search stops when the shortlist is full.
  for (const Candidate& c : answer.ranked) {
    const std::string kind = shortlist_kind(c);
    if (learners.find(c) == nullptr && listed.size() < most_shortlisted &&
        listed.count(kind) == 0 && tried.insert(kind).second) {
      learners.train(c, answer.warnings);
    }
    const Learner* learner = learners.find(c);
    if (learner != nullptr && reaches(*learner, options.min_accuracy)) listed.insert(kind);
  }
  for (const Candidate& c : answer.ranked) {
    if (Learner* learner = learners.find(c)) {
      learner->who.insert(fmt::format("{} on {}", c.family, gpus_text(c.gpus)));
      if (!learner->accuracy) continue;
      double& most = answer.learned[c.family];
      most = std::max(most, learner->accuracy->mean);
    }
  }
  // Divide the candidates: a candidate with enough accuracy remains, all others are counted by
  // reason.
  std::vector<Candidate> kept;
  for (Candidate& c : answer.ranked) {
    const Learner* learner = learners.find(c);
    if (learner == nullptr) {
      const char* why = listed.size() >= most_shortlisted           ? shortlist_full
                        : learners.size() >= options.most_trainings ? enough_trained
                                                                    : nearly_trained;
      ++answer.left_out[why];
    } else if (!learner->accuracy) {
      ++answer.left_out["could not be trained"];
    } else if (reaches(*learner, options.min_accuracy)) {
      c.verdict.accuracy = learner->accuracy;
      kept.push_back(std::move(c));
    } else {
      ++answer.left_out[below(*learner, options.min_accuracy)];
    }
  }
  answer.ranked = std::move(kept);
  answer.trainings = learners.size();
}

// The hardware input to which a candidate is most sensitive, such as "NIC bandwidth"; "" if no
// input changes the step by half a percent.
std::string limit_of(const Candidate& c, const RecommendOptions& options) {
  const Scenario scenario = scenario_of(c);
  const Point point = expand(scenario).front();
  for (const Sensitivity& s :
       sensitivities(scenario, point, {}, {.workers = options.run.workers})) {
    const std::size_t change = s.input.rfind(" +10 %");
    if (change == std::string::npos) continue;  // a doubled batch is no hardware
    return std::abs(s.step_change) < 0.005 ? "" : s.input.substr(0, change);
  }
  return "";
}

// The decision matrix over all candidates that fit into memory, even if they exceed a limit.
// Families have the order of the table of strategies; meshes come last.
std::vector<MatrixColumn> matrix_of(const std::vector<Candidate>& fitting, const InputFiles& files,
                                    const RecommendOptions& options) {
  std::vector<MatrixColumn> matrix;
  const auto column_of = [&matrix](const std::string& family) -> MatrixColumn* {
    for (MatrixColumn& column : matrix) {
      if (column.family == family) return &column;
    }
    return nullptr;
  };
  AlternativeNames<StrategyOptions>::each_form([&](const char*, const StrategyForm& form) {
    const auto in_family = [&](const Candidate& c) { return c.family == form.family; };
    if (column_of(form.family) || std::none_of(fitting.begin(), fitting.end(), in_family)) return;
    matrix.push_back({.family = form.family, .fastest = {}});
  });
  const auto has_mesh = [](const Candidate& c) { return !c.mesh.empty(); };
  const auto with_mesh = std::find_if(fitting.begin(), fitting.end(), has_mesh);
  if (with_mesh != fitting.end()) matrix.push_back({.family = with_mesh->family, .fastest = {}});
  for (const Candidate& c : fitting) {
    MatrixColumn& column = *column_of(c.family);
    const Verdict& v = c.verdict;
    const bool any = column.fastest.base != nullptr;
    if (!any || better(c, column.fastest, RankBy::time)) column.fastest = c;
    column.least_memory = any ? std::min(column.least_memory, v.device) : v.device;
    // A platform without a price, 0, does not hide the prices of others.
    const bool cheaper = column.least_dollars == 0 || v.dollars < column.least_dollars;
    if (v.dollars > 0 && cheaper) column.least_dollars = v.dollars;
  }
  // Judge the fastest candidate of each family one more time, with one GPU 30 % slower.
  std::vector<Group> uneven;
  for (const MatrixColumn& column : matrix) {
    uneven.push_back({scenario_of(column.fastest)});
    uneven.back().front().stragglers.slow_ranks = {{.rank = 0, .factor = 1.3}};
  }
  RecommendOptions no_limits;
  no_limits.run.workers = options.run.workers;
  const auto judged = judge_groups(files, uneven, no_limits);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (!judged[i].verdict || matrix[i].fastest.gpus == 1) continue;
    matrix[i].uneven = judged[i].verdict->total / matrix[i].fastest.verdict.total;
    if (matrix[i].uneven < 1.005) matrix[i].limit = limit_of(matrix[i].fastest, options);
  }
  return matrix;
}

// Throws ConfigError if the scenario cannot answer the question: the run has no length, takes the
// same time with every candidate, or sees more data on more GPUs; or an input of a limit is
// missing.
void check_question(const std::string& file, const Scenario& scenario,
                    const RecommendOptions& options) {
  const char* lengths = "dataset: {samples: 1.28M, epochs: 90}, or {tokens: 100B}";
  if (!scenario.dataset.says_length()) {
    throw file_error(file, "dataset", "is missing: without it no run has an end", lengths);
  }
  const auto located = [&](const char* problem) {
    return ConfigError({scenario.dataset_where, "dataset", problem, lengths});
  };
  if (scenario.dataset.seconds > 0) {
    throw located("gives the time, so every run takes as long: say how much is to be learned");
  }
  if (scenario.dataset.steps > 0 && scenario.batch.global == 0) {
    throw located(
        "counts steps, which see more data on more GPUs: say the data, or `batch: {global: N}`");
  }
  if (options.min_accuracy > 0 && !scenario.convergence) {
    throw file_error(file, "convergence", "is missing: --min-accuracy trains candidates",
                     "`convergence: {data: fashion-mnist}` or more of docs/accuracy.md");
  }
  if (options.by == RankBy::energy && !scenario.energy) {
    throw file_error(file, "energy", "is missing: --by energy ranks by it",
                     "`energy: {}` in the scenario");
  }
}

}  // namespace

std::vector<std::size_t> shortlist(const std::vector<Candidate>& ranked) {
  std::vector<std::size_t> list;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < ranked.size() && list.size() < most_shortlisted; ++i) {
    if (seen.insert(shortlist_kind(ranked[i])).second) list.push_back(i);
  }
  return list;
}

namespace {

// Tries torch.compile, CUDA graphs and fp8 on the recommended candidate. Tries nothing if there is
// a profile, because it has no times with these settings.
std::vector<FasterStill> faster_still(const std::vector<Candidate>& ranked, const InputFiles& files,
                                      const RecommendOptions& options) {
  if (ranked.empty()) return {};
  const Scenario base = scenario_of(ranked.front());
  const StrategyEntry& entry = base.strategies.front();
  if (!base.profile.empty()) return {};
  std::vector<std::pair<FasterStill, Scenario>> tried;
  const auto add = [&](const char* setting, bool other_numerics, const auto& change) {
    tried.push_back({{setting, 0, other_numerics}, base});
    change(tried.back().second.strategies.front());
  };
  if (entry.compile.value_or(base.compile) == Compile::none) {
    add("compile=whole", false, [](StrategyEntry& e) { e.compile = Compile::whole; });
  }
  if (!entry.cuda_graphs.value_or(base.cuda_graphs)) {
    add("cuda_graphs=true", false, [](StrategyEntry& e) { e.cuda_graphs = true; });
  }
  if (!entry.low_precision.value_or(base.low_precision).is_used()) {
    add("low_precision=fp8-current", true, [](StrategyEntry& e) {
      e.low_precision = LowPrecision{LowPrecisionRecipe::fp8_current, false};
    });
  }
  std::vector<FasterStill> faster;
  Judge judge(files, options);
  for (auto& [change, scenario] : tried) {
    const Judgement judged = judge.judge(scenario, Judge::never, {});
    if (!judged.verdict) continue;
    change.gain = 1 - judged.verdict->step / ranked.front().verdict.step;
    if (change.gain >= least_gain) faster.push_back(change);
  }
  std::stable_sort(faster.begin(), faster.end(),
                   [](const FasterStill& a, const FasterStill& b) { return a.gain > b.gain; });
  return faster;
}

}  // namespace

Recommendation recommend(const std::string& file, const RecommendOptions& options) {
  const Scenario scenario = Variants(file, options.settings).with({});
  check_question(file, scenario, options);
  Recommendation answer;
  InputFiles files;
  Candidates all = candidates_of(scenario, options, files);
  answer.left_out = all.left_out;
  std::vector<Candidate>& candidates = all.plain;
  // Candidates that differ only in the micro-batch are judged together, so that a larger
  // micro-batch can rule out smaller ones.
  std::vector<Group> groups;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i == 0 || !same_but_for_micro_batch(candidates[i - 1], candidates[i])) {
      groups.emplace_back();
    }
    groups.back().push_back(scenario_of(candidates[i]));
  }
  auto judged = judge_groups(files, groups, options);
  const JudgedMeshes meshes = judge_meshes(files, all.meshes, candidates, judged, options);
  answer.meshes = meshes.counts;
  answer.meshes.looked_at += all.refused;
  answer.meshes.refused += all.refused;
  candidates.insert(candidates.end(), all.meshes.begin(), all.meshes.end());
  judged.insert(judged.end(), meshes.judged.begin(), meshes.judged.end());
  answer.candidates = candidates.size();

  // `fitting` gets all candidates that fit, `ranked` only the candidates that meet every limit.
  std::vector<Candidate> fitting;
  bool priced = true;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& c = candidates[i];
    if (!judged[i].verdict) {
      ++answer.left_out[judged[i].left_out];
      continue;
    }
    c.verdict = *judged[i].verdict;
    priced = priced && c.verdict.dollars > 0;
    if (options.budget > 0 && c.verdict.dollars == 0) {
      throw file_error(file, "platform", fmt::format("{} has no price, so no budget", c.platform),
                       "`price_per_gpu_hour: 2.5 USD/h` in the scenario");
    }
    if (options.by == RankBy::energy && !c.verdict.energy) {
      throw file_error(file, "platform",
                       fmt::format("the device of {} has no board_power, so no energy", c.platform),
                       "`board_power: 400 W` in a device file of your own");
    }
    const std::string why = fault(c.verdict, options);
    if (why.empty()) answer.ranked.push_back(c);
    if (!why.empty()) ++answer.left_out[why];
    fitting.push_back(c);
  }
  // A user with a budget usually wants the fastest run within it.
  const bool money_is_kept = options.budget > 0 && options.deadline == 0;
  answer.by = options.by.value_or(money_is_kept || !priced ? RankBy::time : RankBy::cost);
  rank(answer.ranked, answer.by);
  if (options.min_accuracy > 0) keep_what_learns(options, answer);
  // A simpler candidate precedes a better one if their times cannot be distinguished. This does not
  // apply to an order by energy or memory.
  if (answer.by == RankBy::cost || answer.by == RankBy::time) put_simple_first(answer.ranked);
  answer.pareto = pareto_front(answer.ranked);
  answer.matrix = matrix_of(fitting, files, options);
  answer.faster = faster_still(answer.ranked, files, options);
  return answer;
}

}  // namespace lockstep
