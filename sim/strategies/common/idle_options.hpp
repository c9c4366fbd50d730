// Options that are not at their defaults and do nothing: what a what-if study would take for a
// finding.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct IdleOption {
  std::string option;   // path below the strategy, or in the scenario
  std::string verdict;  // "has no effect: ..."
  bool learnt = false;  // but on what a run learns, where the scenario asks for that
};

class IdleOptions {
 public:
  // `set`: it is not at its default.
  void idle_if(const char* option, bool set, bool idle, const std::string& reason) {
    if (set && idle) list_.push_back({option, "has no effect: " + reason});
  }
  // It changes what is learnt, and no figure of a step.
  void learnt_if(const char* option, bool set, bool learnt) {
    if (!set || !learnt) return;
    list_.push_back(
        {option, "has no effect: it changes what is learnt, not how long that takes", true});
  }
  // It moves some host time at most.
  void hardly_if(const char* option, bool set, const std::string& reason) {
    if (set) list_.push_back({option, "has next to no effect: " + reason});
  }
  std::vector<IdleOption> take() { return std::move(list_); }

 private:
  std::vector<IdleOption> list_;
};

}  // namespace lockstep
