// The program lockstep-calibrate: parses the command line and calls one command. Errors become
// messages and exit codes here (verbs.hpp).
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>
#include <string>

#include "cli/verbs.hpp"
#include "core/command_line.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "launch/interrupts.hpp"

namespace lockstep {

namespace {

// Messages of LibTorch's errors end with the C++ stack, which is removed.
std::string without_stack(const std::string& message) {
  return message.substr(0, message.find("\nException raised from "));
}

int do_verb(const Chosen& chosen) {
  try {
    return chosen();
  } catch (const InterruptError&) {
    print_error("interrupted\n");
    return exit_interrupted;
  } catch (const ConfigError&) {
    throw;
  } catch (const ExitError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(without_stack(error.what()));
  }
}

}  // namespace

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  occupy_standard_streams();
  ::signal(SIGPIPE,
           SIG_IGN);  // a closed output must be an error, so that the program cleans up first
  CLI::App app{"Measures what training costs on the hardware at hand, and really trains on it."};
  app.name("lockstep");  // the user calls these commands as `lockstep`
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Chosen chosen;
  add_layers(app, chosen);
  add_train(app, chosen, {argv + 1, argv + argc});
  add_worker(app, chosen);
  return exit_code_of("lockstep-calibrate", [&] {
    if (const auto code = parse_command_line(app, argc, argv)) return *code;
    return do_verb(chosen);
  });
}
