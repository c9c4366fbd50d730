// Writes the results of the collectives probe: one JSON line per point for the parent process,
// tables in nccl-tests' layout, one JSON document, and curves of a profile. Includes no LibTorch.
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
  std::string network;    // for example "loopback" or "1 Gbit/s"
  bool complete = false;  // false: the probe was interrupted, and points are missing
  std::vector<CollectivePoint> points;

  std::int64_t wrong() const;
};

nlohmann::json point_json(const CollectivePoint& point);
CollectivePoint point_from_json(const nlohmann::json& json);

// Tables in nccl-tests' layout, one per collective, with three additional columns on the right: CPU
// time of one rank per call, interquartile range, and repetitions. A "*" marks points that other
// processes disturbed.
std::string collective_table(const CollectiveReport& report);
nlohmann::json collective_json(const CollectiveReport& report);
std::vector<ProfileCollective> collective_curves(const CollectiveReport& report);

// The sizes of a text: "4KiB..64MiB" means doublings from the first to the last, "4KiB,1MiB" a
// list. Throws ConfigError.
std::vector<double> parse_sizes(const std::string& text);
// The collectives of a list such as "all_reduce,broadcast"; "" = all. Throws ConfigError.
std::vector<Collective> parse_collectives(const std::string& text);

}  // namespace lockstep
