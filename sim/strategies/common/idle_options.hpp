// Options that differ from their defaults and have no effect. Report them, because a what-if study
// would take "no change" for a finding.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct IdleOption {
  std::string option;   // path below the strategy, or in the scenario
  std::string verdict;  // "has no effect: ..."
  bool learnt = false;  // it affects learning, if the scenario trains
};

class IdleOptions {
 public:
  // `set`: the option differs from its default.
  void idle_if(const char* option, bool set, bool idle, const std::string& reason) {
    if (set && idle) list_.push_back({option, "has no effect: " + reason});
  }
  // The option changes learning, and no figure of a step.
  void learnt_if(const char* option, bool set, bool learnt) {
    if (!set || !learnt) return;
    list_.push_back({option, "has no effect on time: it only changes the learning", true});
  }
  // The option moves some host time at most.
  void hardly_if(const char* option, bool set, const std::string& reason) {
    if (set) list_.push_back({option, "has next to no effect: " + reason});
  }
  std::vector<IdleOption> take() { return std::move(list_); }

 private:
  std::vector<IdleOption> list_;
};

}  // namespace lockstep
