// Results of the collectives probe on their way from rank 0 to the user: a line per point in the
// ranks' result file, the table of nccl-tests, JSON, the curves of a profile. No LibTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "costs/profile.hpp"
#include "probes/collectives.hpp"

namespace lockstep {

// The collectives that can be measured, in the order of the report.
const std::vector<Collective>& measurable_collectives();

struct CollectiveReport {
  std::string backend = "gloo";
  int ranks = 2;
  int nodes = 1;
  std::string network;    // "loopback", "1 Gbit/s"
  bool complete = false;  // false: interrupted, some points are missing
  std::vector<CollectivePoint> points;

  std::int64_t wrong() const;
};

nlohmann::json point_json(const CollectivePoint& point);
CollectivePoint point_from_json(const nlohmann::json& json);

// Tables in nccl-tests' layout, one per collective, with three columns more on the right: CPU time
// of one rank per call, interquartile range, repetitions; "*" where others disturbed.
std::string collective_table(const CollectiveReport& report);
nlohmann::json collective_json(const CollectiveReport& report);
std::vector<ProfileCollective> collective_curves(const CollectiveReport& report);

// "4KiB..64MiB" doubles from the first to the last; "4KiB,1MiB" is these. Throws ConfigError.
std::vector<double> parse_sizes(const std::string& text);
// "all_reduce,broadcast"; "" = all. Throws ConfigError.
std::vector<Collective> parse_collectives(const std::string& text);

}  // namespace lockstep
