// Figures of predictions in a file under golden/, against which predictions are compared so that a
// change is noticed. LOCKSTEP_WRITE_GOLDEN=1 writes the file anew; read the difference then.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record.hpp"

namespace lockstep {

struct Written {
  std::string name;  // the name in messages
  double step = 0;   // seconds; parts of the step are compared relative to it
  // For asynchronous workers only the first step and memory are certain. Later figures may differ
  // on a processor that rounds logarithms differently.
  bool chaotic = false;
  std::vector<std::pair<std::string, double>> figures;  // by the columns' names
};

Written written_of(const Prediction& prediction);

// Compares with the lines of `key` in tests/scenario/golden/FILE, in their order.
void expect_as_written_down(const std::string& file, const std::string& key,
                            const std::vector<Written>& found);

}  // namespace lockstep
