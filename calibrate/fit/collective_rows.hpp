// Public measurements of collectives (platforms/measurements/collectives.yaml) beside the network
// model's predictions. Used by lockstep-fit-collectives, its test and the tables of
// docs/networks.md.
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
  std::string name;      // of the curve
  std::string platform;  // of the repository
  Collective collective = Collective::all_reduce;
  int ranks = 0, nodes = 1;
  int per_process = 1;  // ranks launched one after the other by one process
  RowUse use = RowUse::check;
  double bytes = 0;
  double measured = 0;        // seconds
  double fast = 0, slow = 0;  // 5th and 95th percentile over placements; 0 = not known
  std::string source;
};

// The shipped file. Throws ConfigError.
std::vector<CollectiveRow> collective_rows();

struct CollectivePrediction {
  double seconds = 0;      // by the model, with the measuring tool's launches
  double tuning_only = 0;  // by NCCL's table alone
  std::string choice;      // "ring/simple"
};
CollectivePrediction predict_row(const CollectiveRow& row, const NetworkModel& model = {});

}  // namespace lockstep
