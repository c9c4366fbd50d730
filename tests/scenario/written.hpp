// Figures of predictions that are written down in a file under golden/, so that one that moves is
// seen. LOCKSTEP_WRITE_GOLDEN=1 writes them anew: read the difference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

struct Written {
  std::string name;  // what a fault is reported of
  double step = 0;   // seconds; parts of it are compared with it
  // Asynchronous workers: only the first step and memory are certain; later figures may differ on a
  // processor that rounds logarithms differently.
  bool chaotic = false;
  std::vector<std::pair<std::string, double>> figures;  // by the columns' names
};

Written written_of(const Prediction& prediction);

// Compares with the lines of `key` in tests/scenario/golden/FILE, in their order.
void expect_as_written_down(const std::string& file, const std::string& key,
                            const std::vector<Written>& found);

}  // namespace lockstep
