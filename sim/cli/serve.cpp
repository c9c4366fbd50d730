// `lockstep serve [SCENARIO]` starts the explorer: a page on this machine with controls that change
// a scenario, and with tables and charts that follow each change.
//
//   lockstep serve my.yaml --port 0
//
// The program prints the page's address and serves until Ctrl-C. Other machines cannot reach the
// page (docs/explorer.md).
#include <fmt/format.h>

#include "cli/verb.hpp"
#include "explorer/explorer.hpp"

namespace lockstep::serve_verb {

namespace {

struct Arguments {
  std::string file;  // scenario to start with; "" = a shipped one
  int port = 8417;
  CommonOptions common;
};

// Serves the page; returns only by an exception.
int serve_page(const Arguments& arguments) {
  const Explorer explorer(arguments.file, arguments.common.workers);
  serve(explorer, arguments.port, [](int port) {
    print(fmt::format("http://127.0.0.1:{}/\n", port));
    note("open this page in a browser; Ctrl-C ends it");
  });
}

Choice declare(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand(
      "serve", "Explore in a browser: tables and charts follow every choice (this machine only)");
  verb.add_option("scenario", arguments->file,
                  "Scenario file to begin with (default: a shipped one)");
  verb.add_option("--port", arguments->port, "Port of the page; 0 = any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  add_workers(verb, arguments->common);
  add_examples(verb, {"", "my.yaml", "my.yaml --port 0"});
  return {&verb, [arguments] { return serve_page(*arguments); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::serve_verb
