// `lockstep recommend SCENARIO`: which platform, GPU count and strategy for a training run.
#include "sweep/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/verb.hpp"
#include "core/units.hpp"

namespace lockstep::recommend_verb {

namespace {

struct Arguments {
  std::string file;
  std::string deadline, budget, memory;  // "" = any
  std::string gpus, platforms;           // "" = the scenario's
  std::string by;                        // "cost", "time", "memory"; "" = what the limits suggest
  CommonOptions common;
};

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

int recommend_for(const Arguments& arguments) {
  RecommendOptions options;
  options.deadline = parse_most("--deadline", arguments.deadline, Dimension::seconds);
  options.budget = parse_most("--budget", arguments.budget, Dimension::dollars);
  options.memory = parse_most("--memory", arguments.memory, Dimension::bytes);
  options.gpus = arguments.gpus;
  options.platforms = arguments.platforms;
  const std::array names{"cost", "time", "memory"};
  const auto by = std::find(names.begin(), names.end(), arguments.by);
  if (by != names.end()) options.by = static_cast<RankBy>(by - names.begin());
  Recommendation answer;
  {
    ProgressLine progress("simulating");
    options.run = progress.run_options(arguments.common.workers);
    answer = recommend(arguments.file, options);
  }
  print_text(recommendation_text(answer, arguments.file));
  return answer.ranked.empty() ? 3 : 0;
}

Choice declare(CLI::App& app) {
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "recommend", "Search platform, GPU count, strategy and batch split for a training run");
  verb.add_option("scenario", given->file, "Scenario file, with a dataset")->required();
  verb.add_option("--deadline", given->deadline, "The run takes at most so long, e.g. 6h");
  verb.add_option("--budget", given->budget, "The run costs at most so much, e.g. '200 USD'");
  verb.add_option("--memory", given->memory, "A GPU uses at most so much, e.g. 24GiB");
  verb.add_option("--gpus", given->gpus, "Counts to try, e.g. 1..64*2 (default: the scenario's)");
  verb.add_option("--platforms", given->platforms,
                  "Platforms to try, separated by commas (default: the scenario's)");
  verb.add_option("--by", given->by,
                  "What is best: cost, time or memory (default: cost; time if there is a budget "
                  "and no deadline)")
      ->check(CLI::IsMember({"cost", "time", "memory"}));
  add_workers(verb, given->common);
  add_examples(verb, {"my.yaml --deadline 6h --gpus 1..64*2 --platforms p4d.24xlarge,g5.12xlarge",
                      "my.yaml --budget '200 USD' --memory 24GiB"});
  return {&verb, [given] { return recommend_for(*given); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::recommend_verb
