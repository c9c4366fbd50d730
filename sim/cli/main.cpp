// The program `lockstep`: parses the command line and calls one verb (subcommand).
//
//   lockstep run scenarios/ovi2026/vgg16.yaml
//
// The verbs are in the other files of this folder (verb.hpp). exit_code_of() (core/output.hpp)
// converts exceptions to messages and exit codes.
#include <fmt/format.h>

#include <algorithm>

#include "cli/verb.hpp"
#include "core/command_line.hpp"

namespace {

using namespace lockstep;

constexpr const char* examples = R"(Examples:
  lockstep run scenarios/ovi2026/vgg16.yaml          predict every strategy and GPU count (well under a second)
  lockstep run my.yaml --json > result.json          the same for programs
  lockstep check my.yaml                             does it read, divide and fit?
  lockstep sweep my.yaml --set gpus=1..64*2          every combination of settings, in a file
  lockstep recommend my.yaml --deadline 6h           which strategy on how many GPUs
  lockstep cluster my-cluster.yaml                   who waits for GPUs, under four scheduling policies
  lockstep explain my.yaml                           why the numbers are what they are
  lockstep validate                                  predictions against all measured figures shipped
  lockstep list platforms                            what there is to choose from
  lockstep closed-loop --quick                       calibrate here, predict, train, compare: docs/closed-loop.md
  lockstep VERB --help                               options of a verb, and examples
Exit codes: 0 done, 1 a fault of the program, 2 wrong input, 3 nothing in the scenario fits, 4 --max-error exceeded,
5 a rank was killed or had no memory, 74 an answer or a file could not be written.
Files: docs/scenario-format.md, docs/model-format.md, docs/platform-format.md, docs/device-format.md.)";

// Throws ConfigError for an unknown verb, with the nearest known ones. CLI11 would only report that
// a subcommand is missing.
void check_verb(const std::vector<Choice>& choices, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> verbs;
  for (const Choice& choice : choices) verbs.push_back(choice.verb->get_name());
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
  throw file_error("", "verb", fmt::format("{} is not known", in_quotes(word)),
                   allowed_hint(word, verbs));
}

// Declares all verbs, parses the command line and runs the chosen verb.
int lockstep_main(int argc, char** argv) {
  CLI::App app{"Lockstep predicts what distributed training of a neural network costs."};
  app.name("lockstep");
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  const std::vector<Choice> choices = declare_verbs(app);
  app.footer(examples);  // after the verbs, which would otherwise inherit it
  check_verb(choices, argc, argv);
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  const auto chosen = std::find_if(choices.begin(), choices.end(),
                                   [](const Choice& choice) { return choice.verb->parsed(); });
  return chosen->act();
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  return exit_code_of("lockstep", [&] { return lockstep_main(argc, argv); });
}
