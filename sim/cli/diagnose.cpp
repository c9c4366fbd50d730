// `lockstep diagnose LOG` answers: how long do the steps of a real training take, which of its
// steps are unusual, and how far is the prediction?
//
//   lockstep diagnose train.log --scenario my.yaml
//
//   train.log (torchtitan): 1.13 s a step: median of 11 entries, steps 15 to 58, ...
//   - 1 of 11 entries are slower than 1.5 medians, 76.9 % of the time: ...
//
// With a scenario or a config (--from), the predicted step and the differences are printed first.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/logged_run.hpp"
#include "core/units.hpp"

namespace lockstep::diagnose_verb {
namespace {

// Reads the log, predicts if there is a scenario, and prints numbers and sentences.
int diagnose(LogQuestion& question) {
  const LoggedRun run = logged_run(question);
  if (question.common.format == Format::json) {
    print(steps_json(run).dump(2) + "\n");
    return 0;
  }
  std::string text = fmt::format("{} ({}): {}\n", run.log.file, run.log.program, steps_text(run));
  if (run.predicted) {
    const auto time = [](double seconds) { return human(seconds, Dimension::seconds); };
    text += fmt::format("predicted, {} on {} GPUs: {} a step ({} .. {})\n", run.strategy, run.gpus,
                        time(run.predicted->seconds), time(run.predicted->low),
                        time(run.predicted->high));
    for (const std::string& sentence : what_differs(run.steps, *run.predicted))
      text += "- " + sentence + "\n";
  }
  const std::vector<std::string> sentences = what_stands_out(run.steps);
  for (const std::string& sentence : sentences) text += "- " + sentence + "\n";
  if (sentences.empty() && !run.steps.all.empty()) text += "- steps are even\n";
  print_text(text);
  return 0;
}

Choice declare(CLI::App& app) {
  const auto question = std::make_shared<LogQuestion>();
  CLI::App& verb =
      *app.add_subcommand("diagnose", "The steps of a training's log beside the prediction");
  add_log_options(verb, *question);
  add_examples(verb, {"train.log", "train.log --scenario my.yaml",
                      "train.log --from train.toml --platform dgx-h100 --gpus 64"});
  return {&verb, [question] { return diagnose(*question); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace
}  // namespace lockstep::diagnose_verb
