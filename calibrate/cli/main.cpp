// The program lockstep-calibrate: parses the command line and hands over to one verb.
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>

#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "launch/interrupts.hpp"
#include "launch/processes.hpp"

namespace lockstep {

namespace {

// LibTorch's errors carry the C++ stack behind the message.
std::string without_stack(const std::string& message) {
  return message.substr(0, message.find("\nException raised from "));
}

}  // namespace

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  occupy_standard_streams();
  ::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error like others: clean up first
  CLI::App app{"Measures what training costs on the hardware at hand, and really trains on it."};
  app.name("lockstep");  // whose verbs they are to the user
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Chosen chosen;
  add_layers(app, chosen);
  add_train(app, chosen, {argv + 1, argv + argc});
  add_worker(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? end_of_output() : 2;
  }
  try {
    return chosen();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const InterruptError&) {
    fmt::print(stderr, "interrupted\n");
    return exit_interrupted;
  } catch (const OutputError& error) {
    fmt::print(stderr, "lockstep-calibrate: {}\n", error.what());
    return exit_not_written;
  } catch (const RankLost& error) {
    fmt::print(stderr, "lockstep-calibrate: {}\n", error.what());
    return exit_rank_lost;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-calibrate: {}\n", without_stack(error.what()));
    return 1;
  }
}
