// Work with the names of its parts.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "costs/cost.hpp"

namespace lockstep {

// Work that is issued in one go, and what it consists of, in order: told apart only for an
// observer. Names live as long as the simulation.
struct NamedWork {
  struct Part {
    std::string_view name;
    QueuedWork work;
  };

  QueuedWork total;
  std::vector<Part> parts;

  void append(std::string_view name, const QueuedWork& work) {
    total = lockstep::append(total, work);
    parts.push_back({name, work});
  }
};

}  // namespace lockstep
