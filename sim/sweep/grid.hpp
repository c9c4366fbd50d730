// All combinations of a scenario's settings, as numbered points. A grid enumerates the points of a
// sweep without holding them in memory. A point is one strategy entry on one GPU count, with one
// value of each setting. A setting inside an entry (`strategies[1].x`, `strategies.ddp.x`) is an
// axis of the entries that its path selects only. In the number of a point, the last axis changes
// fastest:
//
//     entry 0  |  setting 1  |  setting 2  |  ...  |  GPUs of the file
//     entry 1  |  ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "points/inputs.hpp"
#include "scenario/scenario.hpp"
#include "sweep/override.hpp"

namespace lockstep {

// Number of a point in a grid. It is below 2^53, so that a double represents it exactly.
using PointIndex = std::uint64_t;

// The numbered points of one scenario file. Immutable after construction.
class Grid {
 public:
  // Reads the scenario, the values of every setting (only a part if a setting has more than ten
  // thousand values), and the files that they name (into `files`). Throws ConfigError with the
  // mistakes found, located in the texts of the settings. A mistake that only a combination of
  // values makes (a batch that does not divide) is found when its point is built.
  Grid(const std::string& scenario_file, const std::vector<std::string>& settings,
       InputFiles& files);

  PointIndex size() const { return size_; }
  // The scenario of one point, with one strategy entry and one GPU count. Throws ConfigError if the
  // combination is refused.
  Scenario scenario(PointIndex point) const;
  // Index of the point's entry in the file's strategies, or in the values of `strategies=`.
  std::size_t entry(PointIndex point) const;
  // Path and value of each setting at a point, in the order of the settings; null if the setting
  // does not apply to the point's entry.
  std::vector<std::pair<std::string, const std::string*>> set(PointIndex point) const;
  // The settings. If none gives GPU counts, the file's counts are the last one, with an empty name.
  const std::vector<Setting>& settings() const { return settings_; }
  // A hash of scenario text, settings and program version. Grids with equal digests number the same
  // points.
  const std::string& digest() const { return digest_; }

 private:
  // The entries to which a setting applies.
  struct Axis {
    EntriesOfSetting where;
    bool applies_to(std::size_t entry) const;
  };
  // Index of the chosen value of each axis; nothing if the axis does not apply to the entry.
  std::vector<std::optional<std::size_t>> values_at(PointIndex point) const;
  // The scenario of an entry with the chosen values. Throws ConfigError.
  Scenario read(std::size_t entry, const std::vector<std::optional<std::size_t>>& values) const;
  // Reads every value once. Throws ConfigError with all mistakes.
  void check_values(InputFiles& files) const;

  std::string file_;
  Node root_;                      // the file without strategies, GPU counts and measured rows
  std::vector<Node> entries_;      // elements of `strategies`
  std::vector<Setting> settings_;  // the GPU counts of the file come last
  bool gpus_of_file_ = true;       // no setting gives GPU counts
  // The largest GPU count. Every scenario is read with this count in addition, because a slow rank
  // that exists only there is no mistake at smaller counts.
  Node most_gpus_;
  std::vector<Axis> axes_;          // one for each setting
  std::vector<PointIndex> begins_;  // number of the first point of each entry
  PointIndex size_ = 0;
  std::string digest_;
};

// Draws `count` different points of a grid with `size` points, keyed by `seed`, and returns them in
// ascending order. Returns all points if there are no more than `count`.
std::vector<PointIndex> sample(PointIndex size, std::size_t count, std::uint64_t seed);

}  // namespace lockstep
