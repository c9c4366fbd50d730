// Options that differ from their defaults and have no effect in a job. Each strategy lists them in
// idle_options(), and the program reports them. Without this remark, a user could take "no change"
// for a finding.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct IdleOption {
  std::string option;   // path of the option, relative to the strategy or to the scenario
  std::string verdict;  // "has no effect: ..."
  bool learnt = false;  // affects accuracy; not reported if the scenario has a `convergence:` part
};

// Collects idle options. In all functions, `set` means that the option differs from its default.
class IdleOptions {
 public:
  // The option changes neither a predicted value nor learning. `reason` completes "has no effect:
  // ...".
  void idle_if(const char* option, bool set, bool idle, const std::string& reason) {
    if (set && idle) list_.push_back({option, "has no effect: " + reason});
  }
  // The option changes learning, but no predicted value of a step.
  void learnt_if(const char* option, bool set, bool learnt) {
    if (!set || !learnt) return;
    list_.push_back({option, "has no effect on time: it only changes the learning", true});
  }
  // The option changes host time at most.
  void hardly_if(const char* option, bool set, const std::string& reason) {
    if (set) list_.push_back({option, "has next to no effect: " + reason});
  }
  std::vector<IdleOption> take() { return std::move(list_); }

 private:
  std::vector<IdleOption> list_;
};

}  // namespace lockstep
