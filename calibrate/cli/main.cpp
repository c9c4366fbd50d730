// The program lockstep-calibrate: parses the command line and hands over to one verb.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

#include "cli/verbs.hpp"
#include "core/errors.hpp"
#include "launch/interrupts.hpp"

namespace lockstep {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(fmt::format("cannot write the answer: {}", std::strerror(errno)));
  }
}

namespace {

// A descriptor that is closed would be taken by the next pipe, and output would land there.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round on purpose: writing to a stdout that was closed must fail.
    (void)::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

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
  app.name("lockstep-calibrate");
  app.set_version_flag("--version", LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Chosen chosen;
  add_layers(app, chosen);
  add_collectives(app, chosen);
  add_train(app, chosen, {argv + 1, argv + argc});
  add_worker(app, chosen);
  // `calibrate collectives` is the verb `collectives`.
  if (argc > 2 && std::string(argv[1]) == "calibrate" && std::string(argv[2]) == "collectives") {
    argv[1] = argv[0];
    ++argv;
    --argc;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return chosen();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const InterruptError&) {
    fmt::print(stderr, "interrupted\n");
    return exit_interrupted;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lockstep-calibrate: {}\n", without_stack(error.what()));
    return 1;
  }
}
