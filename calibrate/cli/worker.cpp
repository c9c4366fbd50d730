// Implements the hidden command `worker`, which finds the function of a rank by its name. Other
// commands start this program with it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "cli/verbs.hpp"
#include "cli/workers.hpp"
#include "core/errors.hpp"

namespace lockstep {

namespace {

const std::map<std::string, int (*)(const Words&)>& workers() {
  static const std::map<std::string, int (*)(const Words&)> all{
      {"collectives", collectives_worker},
      {"layers", layers_worker},
      {"replay", replay_worker},
  };
  return all;
}

int run_worker(const std::string& name, const Words& arguments) {
  const auto found = workers().find(name);
  if (found == workers().end()) throw file_error("", "worker", "no worker " + in_quotes(name));
  const int code = found->second(arguments);
  // _exit() avoids a race between Gloo's threads and the libraries' destructors.
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

std::vector<std::string> worker_arguments(const std::string& name,
                                          const std::vector<std::string>& rest) {
  std::vector<std::string> all{"worker", name, "--"};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

void add_worker(CLI::App& app, Chosen& chosen) {
  struct Options {
    std::string name;
    Words rest;
  };
  const auto options = std::make_shared<Options>();
  auto* verb = app.add_subcommand("worker", "A rank of another verb");
  verb->group("");  // hidden
  verb->add_option("name", options->name)->required();
  verb->add_option("rest", options->rest);
  verb->callback([options, &chosen] {
    chosen = [options] { return run_worker(options->name, options->rest); };
  });
}

}  // namespace lockstep
