// `lockstep recommend SCENARIO` answers: on which platform, on how many GPUs and with which
// strategy should this training run, within a deadline, a budget or a memory limit?
//
//   lockstep recommend my.yaml --deadline 6h --gpus 1..64*2 --platforms p4d.24xlarge,g5.12xlarge
//
// The answer is a shortlist with reasons, the Pareto front of time, cost and memory, and the number
// of candidates left out, by reason (docs/recommend.md). --min-accuracy really trains the best
// candidates and excludes candidates that do not reach it; --emit writes files that start the
// training of the best candidate. Exit code 3 if no candidate meets every limit.
#include "sweep/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/config_options.hpp"
#include "cli/emit.hpp"
#include "cli/verb.hpp"
#include "convergence/study.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "sweep/candidates.hpp"
#include "sweep/override.hpp"

namespace lockstep::recommend_verb {

namespace {

// Limits remain texts until they are parsed with their units.
struct Arguments {
  std::string file;
  ConfigSource from;
  EmitOptions emit;
  std::vector<std::string> settings;     // "PATH=VALUES"
  std::string deadline, budget, memory;  // limits with units; "" = none
  std::string gpus, platforms;           // "" = the scenario's
  std::string by;                        // one of rank_names; "" = the search chooses
  std::string accuracy;                  // "85%"; "" = no limit
  std::size_t trainings = RecommendOptions{}.most_trainings;
  CommonOptions common;
};

// Parses a limit to base units; 0 if there is none. Throws ConfigError about the option.
double parse_most(const char* option, const std::string& text, Dimension dimension) {
  if (text.empty()) return 0;
  try {
    const double value = parse_quantity(text, dimension);
    if (value > 0) return value;
  } catch (const UnitError& error) {
    throw file_error("", option, error.what());
  }
  throw file_error("", option, fmt::format("{} is out of range", in_quotes(text)),
                   "allowed: more than 0");
}

// Parses a share above 0 and at most 1. Throws ConfigError about the option.
double parse_share(const char* option, const std::string& text) {
  double value = 0;
  try {
    value = parse_quantity(text, Dimension::fraction);
  } catch (const UnitError& error) {
    throw file_error("", option, error.what());
  }
  if (value > 0 && value <= 1) return value;
  throw file_error("", option, fmt::format("{} is out of range", in_quotes(text)),
                   "allowed: more than 0 %, at most 100 %");
}

// Trains candidates like `run` trains the points of a scenario. Candidates that learn the same
// share one training.
class Trainings {
 public:
  Trainings(const Scenario& scenario, int workers)
      : progress_("training"),
        workers_(workers),
        replays_(scenario.convergence->where, training_options("recommend", progress_, workers)) {}

  PreparedTraining prepare(const Scenario& candidate) {
    return prepare_training(candidate, replays_, workers_);
  }

 private:
  ProgressLine progress_;
  int workers_;
  Replays replays_;
};

// Writes the files that start the training of the best candidate.
int emit_best(const Arguments& arguments, const Candidate& best) {
  // A candidate is the scenario with the user's settings and the settings that the search chose.
  std::vector<std::string> settings = arguments.settings;
  settings.insert(settings.end(), best.settings.begin(), best.settings.end());
  const Node root = with_settings(Node::parse_file(arguments.file), settings);
  return emit(read_scenario_node(root, arguments.file), arguments.emit);
}

// Converts the options to a search, runs it, and prints the answer.
int recommend_for(Arguments& arguments) {
  // The search needs a fixed amount of data, because candidates differ in the batch of a step.
  arguments.from.answers.length_as_data = true;
  const std::string name = scenario_from(arguments.from, !arguments.file.empty());
  if (!name.empty()) arguments.file = name;
  RecommendOptions options;
  options.deadline = parse_most("--deadline", arguments.deadline, Dimension::seconds);
  options.budget = parse_most("--budget", arguments.budget, Dimension::dollars);
  options.memory = parse_most("--memory", arguments.memory, Dimension::bytes);
  options.settings = arguments.settings;
  options.gpus = arguments.gpus;
  options.platforms = arguments.platforms;
  // If --by is not given, the search chooses it from the limits.
  const auto by = std::find(rank_names.begin(), rank_names.end(), arguments.by);
  if (by != rank_names.end()) options.by = static_cast<RankBy>(by - rank_names.begin());
  options.most_trainings = arguments.trainings;
  std::optional<Trainings> trainings;
  if (!arguments.accuracy.empty()) {
    options.min_accuracy = parse_share("--min-accuracy", arguments.accuracy);
    // A scenario that cannot be trained is reported before thousands of candidates are simulated.
    const Scenario scenario = Variants(arguments.file, arguments.settings).with({});
    if (scenario.convergence) {
      check_can_learn(scenario);
      trainings.emplace(scenario, arguments.common.workers);
    }
    options.prepare = [&](const Scenario& candidate) { return trainings->prepare(candidate); };
  }
  Recommendation answer;
  {
    ProgressLine progress("simulating");
    options.run = progress.run_options(arguments.common.workers);
    answer = recommend(arguments.file, options);
  }
  for (const std::string& warning : answer.warnings) note("note: " + warning);
  switch (arguments.common.format) {
    case Format::json:
      print(recommendation_json(answer));
      break;
    case Format::csv:
      print(recommendation_csv(answer));
      break;
    default:
      print_text(recommendation_text(answer, arguments.file, arguments.settings));
  }
  if (!arguments.emit.formats.empty() && !answer.ranked.empty())
    return emit_best(arguments, answer.ranked.front());
  return answer.ranked.empty() ? 3 : 0;
}

Choice declare(CLI::App& app) {
  const auto parsed = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "recommend", "Search platform, GPU count, strategy and batch split for a training run");
  CLI::Option* scenario =
      verb.add_option("scenario", parsed->file, "Scenario file, with a dataset");
  verb.add_option(
          "--set", parsed->settings,
          "Field and its value instead of the file's: batch.global=256; once for each field")
      ->expected(1)
      ->take_all();
  verb.add_option("--deadline", parsed->deadline, "Longest time of the run, e.g. 6h");
  verb.add_option("--budget", parsed->budget, "Highest cost of the run, e.g. '200 USD'");
  verb.add_option("--memory", parsed->memory, "Largest memory use of a GPU, e.g. 24GiB");
  verb.add_option("--gpus", parsed->gpus,
                  "GPU counts to try, e.g. 1..64*2 (default: the scenario's)");
  verb.add_option("--platforms", parsed->platforms,
                  "Platforms to try, separated by commas (default: the scenario's)");
  verb.add_option("--by", parsed->by,
                  "Goal: cost, time, memory or energy (default: cost; time if there is a budget "
                  "and no deadline)")
      ->check(CLI::IsMember(std::vector<std::string>(rank_names.begin(), rank_names.end())));
  verb.add_option("--min-accuracy", parsed->accuracy,
                  "Lowest accuracy of the run, e.g. 85%: candidates are trained, best first (needs "
                  "LibTorch; `convergence` in the scenario has the options)");
  verb.add_option("--trainings", parsed->trainings,
                  "Largest number of candidates to train; candidates that learn alike count once "
                  "(default: 12)")
      ->check(CLI::Range(1, 1000));
  add_from(verb, scenario, parsed->from);
  add_emit(verb, parsed->emit);
  add_formats(verb, parsed->common, Formats::json_csv);
  add_workers(verb, parsed->common);
  add_examples(verb, {"my.yaml --deadline 6h --gpus 1..64*2 --platforms p4d.24xlarge,g5.12xlarge",
                      "my.yaml --budget '200 USD' --memory 24GiB",
                      "my.yaml --min-accuracy 85% --gpus 1..8*2",
                      "my.yaml --set batch.global=512 --json > recommendation.json"});
  return {&verb, [parsed] { return recommend_for(*parsed); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::recommend_verb
