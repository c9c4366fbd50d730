// Answers the questions of the explorer's page. A question is a scenario that the page's controls
// have changed. `lockstep serve` makes an Explorer and calls serve(). Each change is a setting in
// the syntax of `run --set`, so a command line gives the same answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "points/simulate.hpp"

namespace lockstep {

// A reply to a question: an HTTP status and JSON.
struct ExplorerReply {
  int status = 200;  // 400 no question, 422 wrong input, 500 a defect of the program
  std::string json;
};

// The scenarios that the page offers, and the answers to its questions. Immutable after
// construction.
class Explorer {
 public:
  // `file` is the scenario to start with; "" = the first shipped one. `workers` is the number of
  // child processes at the same time; 0 = one per core. Throws ConfigError if the file is no
  // scenario.
  Explorer(std::string file, int workers);

  // JSON {scenarios, start, models, platforms, precisions, optimizers, strategies}: the options of
  // the controls. A model is {name, reads}, and `reads` is "tokens" or "images".
  std::string choices() const;

  // Answers a question, {"scenario": FILE, "settings": ["gpus=1,2", ...]}. The question may name
  // only files of choices(), and make only settings that the controls make. The answer is {data,
  // form, yaml, command, seconds} with report_json() as `data`, or {errors: [{field, message,
  // hint}]}. `convergence` of a scenario is ignored: nothing is trained. `progress` is called with
  // the progress of the simulations. Throws nothing.
  ExplorerReply answer(const std::string& question,
                       const std::function<void(const RunProgress&)>& progress = {}) const;

 private:
  std::string start_;
  std::vector<std::string> files_;  // scenarios that a question may name
  int workers_;
};

// Serves HTTP on this machine's loopback interface until a signal ends the process (Ctrl-C,
// SIGTERM: exit code 0). Each question runs in a child process, which ends when its connection is
// closed. If `port` is 0, any free port is used; `ready` is called with the actual port. Throws
// OutputError if the port is not available.
[[noreturn]] void serve(const Explorer& explorer, int port, const std::function<void(int)>& ready);

}  // namespace lockstep
