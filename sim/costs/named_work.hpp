// Work together with the names of its parts, for traces. A strategy that issues several layers in
// one go hands the total to the engine and the parts to an observer (engine/observer.hpp).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "costs/cost.hpp"

namespace lockstep {

// Work that is issued in one go, and its parts in order. Only an observer distinguishes the parts.
// REQUIRES: the names outlive the simulation.
struct NamedWork {
  struct Part {
    std::string_view name;
    QueuedWork work;
  };

  QueuedWork total;
  std::vector<Part> parts;

  // Adds a part behind the others.
  void append(std::string_view name, const QueuedWork& work) {
    total = lockstep::append(total, work);
    parts.push_back({name, work});
  }
};

}  // namespace lockstep
