// All combinations of a scenario's settings, numbered. Use it to enumerate the points of a sweep
// without holding them in memory. A point is one strategy entry on one GPU count: the entries are
// the outermost axis, GPU counts the innermost, the settings in between in the order they are
// given. A setting inside an entry is an axis of that entry only.
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

using PointIndex = std::uint64_t;

class Grid {
 public:
  // Reads the scenario and every value of every setting, and the files they name (which stay in
  // `files`). Throws ConfigError with all mistakes, located in the texts of the settings. A mistake
  // of a combination (a batch that does not divide) is found when its point is made.
  Grid(const std::string& scenario_file, const std::vector<std::string>& settings,
       InputFiles& files);

  PointIndex size() const { return size_; }
  // The scenario of one point: one strategy, one GPU count. Throws ConfigError.
  Scenario scenario(PointIndex point) const;
  std::size_t entry(PointIndex point) const;  // of the file's strategies, or of `strategies=`
  // Path and value of each setting at a point, in the order of the settings.
  std::vector<std::pair<std::string, const std::string*>> set(PointIndex point) const;
  const std::vector<Setting>& settings() const { return settings_; }
  // Equal for equal scenario text, settings and program.
  const std::string& digest() const { return digest_; }

 private:
  // Where a setting applies.
  struct Axis {
    EntriesOfSetting where;
    bool applies_to(std::size_t entry) const;
  };
  // The chosen value of each axis; nothing if the axis does not apply.
  std::vector<std::optional<std::size_t>> values_at(PointIndex point) const;
  Scenario read(std::size_t entry, const std::vector<std::optional<std::size_t>>& values) const;
  void check_values(InputFiles& files) const;

  std::string file_;
  Node root_;                      // without strategies, GPU counts and measured rows
  std::vector<Node> entries_;      // of `strategies`
  std::vector<Setting> settings_;  // GPU counts of the file are the last
  bool gpus_of_file_ = true;
  Node most_gpus_;          // the largest count: slow ranks beyond the others are no mistake
  std::vector<Axis> axes_;  // one for each setting
  std::vector<PointIndex> begins_;  // of each entry's points
  PointIndex size_ = 0;
  std::string digest_;
};

// `count` different points of the grid, drawn with `seed`, ascending; all if there are fewer.
std::vector<PointIndex> sample(PointIndex size, std::size_t count, std::uint64_t seed);

}  // namespace lockstep
