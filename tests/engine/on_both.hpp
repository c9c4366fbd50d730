// Runs a simulation on the loop and, in a child, on SimGrid. Use it to check that both agree.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/transfer.hpp"
#include "in_child.hpp"

namespace lockstep {

// The numbers that `play(engine)` returns on the loop; fails the test if SimGrid's differ.
template <class Play>
std::vector<double> on_both(Play&& play) {
  std::vector<double> loop = play(Engine::loop);
  const std::vector<double> simgrid = in_child([&] { return play(Engine::simgrid); });
  EXPECT_EQ(loop.size(), simgrid.size());
  for (std::size_t i = 0; i < std::min(loop.size(), simgrid.size()); ++i) {
    EXPECT_NEAR(loop[i], simgrid[i], 1e-10 * (1e-3 + std::abs(loop[i]))) << i;
  }
  return loop;
}

}  // namespace lockstep
