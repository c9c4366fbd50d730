// `lockstep replay TRACE.et...` answers: how long does the step of a recorded Chakra trace take, as
// recorded or with its collectives on another platform?
//
//   lockstep replay traces/ddp-8/chakra.0.et --platform p4d.24xlarge --gpus 16
//
// The answer is one line per trace: step, compute, host, communication, bytes, and the part of
// communication during which the device computes nothing. A node (operation) runs when its
// dependencies have ended; the device and the host each run one node after the other
// (docs/trace.md).
#include "questions/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "imports/unpacked_text.hpp"

namespace lockstep::replay_verb {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string platform;  // "" = as recorded, and then `gpus` must not be given
  int gpus = 0;          // ranks of each collective
};

// Seconds for people.
std::string time(double seconds) {
  return human(seconds, Dimension::seconds);
}

// The platform that carries out the collectives. Throws ConfigError if it has too few GPUs.
Machine machine_of(const Arguments& options) {
  Machine machine = load_machine(options.platform);
  if (options.gpus > max_gpus(machine)) {
    throw file_error("", "--gpus",
                     fmt::format("{} GPUs, but {} has at most {}", options.gpus, machine.name,
                                 max_gpus(machine)),
                     "a larger platform, or a file of your own");
  }
  return machine;
}

// Tells the user that messages have their recorded duration, because only collectives can be
// computed for another platform.
void tell_messages(const std::string& file, const std::vector<ChakraNode>& nodes) {
  const auto messages = std::count_if(nodes.begin(), nodes.end(), [](const ChakraNode& node) {
    return node.type == ChakraNode::Type::send || node.type == ChakraNode::Type::receive;
  });
  if (messages == 0) return;
  note(fmt::format("note: {}: {} messages last as recorded, not as on the platform", file,
                   messages));
}

// Reads each trace, changes the durations of its collectives, and replays it.
int replay_traces(const Arguments& options) {
  std::string text;
  std::optional<Machine> machine;
  if (!options.platform.empty()) machine = machine_of(options);
  for (const std::string& file : options.files) {
    std::vector<ChakraNode> nodes = read_chakra(file, unpacked_text(file));
    if (machine) {
      tell_messages(file, nodes);
      nodes = priced_on(std::move(nodes), *machine, options.gpus);
    }
    const Replay result = replay(file, nodes);
    text += fmt::format(
        "{}: step {}; computing {}, host {}; communication {} of {}, {} without computing beside "
        "it\n",
        file, time(result.step), time(result.compute), time(result.host),
        time(result.communication), human(result.bytes, Dimension::bytes), time(result.alone));
  }
  print(text);
  return 0;
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("replay", "A step of a Chakra trace, as recorded or on another platform");
  verb.add_option("trace", arguments->files, "Traces of ranks, *.et")->required();
  auto* platform =
      verb.add_option("--platform", arguments->platform,
                      "Platform that carries out the collectives (default: times as recorded)");
  auto* gpus = verb.add_option("--gpus", arguments->gpus, "GPUs that take part in each collective")
                   ->check(CLI::Range(1, 1 << 20));
  platform->needs(gpus);
  gpus->needs(platform);
  add_examples(verb, {"traces/ddp-8/chakra.0.et",
                      "traces/ddp-8/chakra.0.et --platform p4d.24xlarge --gpus 16"});
  return {&verb, [arguments] { return replay_traces(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace
}  // namespace lockstep::replay_verb
