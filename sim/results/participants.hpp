// Draws the workers that take part in an update of federated averaging (McMahan et al. 2017,
// algorithm 1). The simulated and the real server both call this function, so they draw the same
// workers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/index.hpp"
#include "core/random.hpp"

namespace lockstep {

// Returns for each of `workers` whether it is among the `drawn` workers of update number `version`.
// Each worker draws a uniform number with the key (seed, worker, version); the workers with the
// smallest numbers take part.
// REQUIRES: 1 <= drawn <= workers.
inline std::vector<bool> participants(int workers, int drawn, std::uint64_t seed,
                                      std::int64_t version) {
  constexpr std::uint32_t participant_draw = 0x70617274;
  std::vector<double> places;
  for (int worker = 0; worker < workers; ++worker) {
    places.push_back(uniform_draw({seed, static_cast<std::uint32_t>(worker),
                                   static_cast<std::uint32_t>(version), participant_draw}));
  }
  std::vector<int> order(at(workers));
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + drawn - 1, order.end(),
                   [&](int a, int b) { return places[at(a)] < places[at(b)]; });
  std::vector<bool> result(at(workers), false);
  for (int i = 0; i < drawn; ++i) result[at(order[at(i)])] = true;
  return result;
}

}  // namespace lockstep
