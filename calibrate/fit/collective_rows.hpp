// Public measurements of collectives (platforms/measurements/collectives.yaml), and the network
// model's predictions for them. lockstep-fit-collectives and its test use them, and so do the
// tables of docs/networks-results.md.
#pragma once

#include <string>
#include <vector>

#include "costs/collective.hpp"

namespace lockstep {

enum class RowUse { fit, check, platform };
template <>
struct EnumNames<RowUse> {
  static constexpr std::array names{"fit", "check", "platform"};
};

struct CollectiveRow {
  std::string name;      // name of the curve
  std::string platform;  // platform of the repository
  Collective collective = Collective::all_reduce;
  int ranks = 0, nodes = 1;
  int per_process = 1;  // ranks launched one after the other by one process
  RowUse use = RowUse::check;
  double bytes = 0;
  double measured = 0;        // seconds
  double fast = 0, slow = 0;  // 5th and 95th percentile over placements; 0 = not known
  std::string source;
};

// All rows of the shipped file. Throws ConfigError.
std::vector<CollectiveRow> collective_rows();

struct CollectivePrediction {
  double seconds = 0;      // by the model, including the measuring tool's launches
  double tuning_only = 0;  // only by NCCL's tuning table
  std::string choice;      // algorithm and protocol, for example "ring/simple"
};
CollectivePrediction predict_row(const CollectiveRow& row, const NetworkModel& model = {});

}  // namespace lockstep
