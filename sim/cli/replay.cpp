// `lockstep replay TRACE.et...`: what a Chakra trace takes, as recorded or on another machine.
#include "questions/replay.hpp"

#include <fmt/format.h>

#include "cli/verb.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/units.hpp"
#include "imports/unpacked_text.hpp"

namespace lockstep {
namespace {

struct Arguments {
  std::vector<std::string> files;
  std::string platform;
  int gpus = 0;
};

std::string time(double seconds) {
  return human(seconds, Dimension::seconds);
}

int replay_traces(const Arguments& options) {
  std::string text;
  for (const std::string& file : options.files) {
    std::vector<ChakraNode> nodes = read_chakra(file, unpacked_text(file));
    if (!options.platform.empty())
      nodes = priced_on(std::move(nodes), load_machine(options.platform), options.gpus);
    const Replay result = replay(file, nodes);
    text += fmt::format(
        "{}: step {}; computing {}, host {}; communication {} of {}, {} of it while nothing is "
        "computed\n",
        file, time(result.step), time(result.compute), time(result.host),
        time(result.communication), human(result.bytes, Dimension::bytes), time(result.alone));
  }
  print(text);
  return 0;
}

Choice declare(CLI::App& app) {
  const auto given = std::make_shared<Arguments>();
  CLI::App& verb =
      *app.add_subcommand("replay", "A step of a Chakra trace, as recorded or on another platform");
  verb.add_option("trace", given->files, "Traces of ranks, *.et")->required();
  auto* platform = verb.add_option("--platform", given->platform,
                                   "Where the collectives take place (default: as recorded)");
  auto* gpus = verb.add_option("--gpus", given->gpus, "GPUs that take part in each of them")
                   ->check(CLI::Range(1, 1 << 20));
  platform->needs(gpus);
  gpus->needs(platform);
  add_examples(verb, {"traces/ddp-8/chakra.0.et",
                      "traces/ddp-8/chakra.0.et --platform p4d.24xlarge --gpus 16"});
  return {&verb, [given] { return replay_traces(*given); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace
}  // namespace lockstep
