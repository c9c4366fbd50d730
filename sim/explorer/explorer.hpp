// Questions of the explorer's page and their answers: a scenario, changed by the page's controls.
// `lockstep serve` makes an Explorer and calls serve(). Each change is a setting as `run --set`
// takes it, so that a command line gives the same answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "points/simulate.hpp"

namespace lockstep {

// A reply to a question: an HTTP status and its JSON.
struct ExplorerReply {
  int status = 200;  // 400 no question, 422 wrong input, 500 a fault of the program
  std::string json;
};

// The scenarios that the page offers, and the simulation of its questions. Immutable after
// construction.
class Explorer {
 public:
  // `file` is the scenario to begin with; "" = the first shipped one. `workers` is the number of
  // child processes at a time; 0 = one per core. Throws ConfigError if the file is no scenario.
  Explorer(std::string file, int workers);

  // JSON {scenarios, start, models, platforms, precisions, optimizers, strategies}: the options of
  // the controls. A model is {name, reads}, where `reads` is tokens or images.
  std::string choices() const;

  // Answers a question, {"scenario": FILE, "settings": ["gpus=1,2", ...]}. Only files of choices()
  // and settings that the controls make are allowed. The answer is {data, form, yaml, command,
  // seconds} with report_json() as data, or {errors: [{field, message, hint}]}. A scenario's
  // `convergence` is not trained. `progress` is called with the state of the simulations. Throws
  // nothing.
  ExplorerReply answer(const std::string& question,
                       const std::function<void(const RunProgress&)>& progress = {}) const;

 private:
  std::string start_;
  std::vector<std::string> files_;  // scenarios that a question may name
  int workers_;
};

// Serves HTTP on this machine's loopback interface until the process is ended (Ctrl-C, SIGTERM:
// exit code 0). Each question runs in a child process, which ends when its connection is closed.
// `port` 0 takes any free port; `ready` is called with the port. Throws OutputError if the port is
// not available.
[[noreturn]] void serve(const Explorer& explorer, int port, const std::function<void(int)>& ready);

}  // namespace lockstep
