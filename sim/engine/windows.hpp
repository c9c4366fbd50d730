// The start and end times of a communicator's collectives, by group of lanes (engine/ranks.hpp).
// Interference slows down compute during these windows, and Communicator::divide() uses them to
// split idle time by cause.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/event_state.hpp"
#include "engine/range.hpp"

namespace lockstep {

// The start and end of a collective in one group, in seconds.
struct Window {
  double start = 0;
  double end = never;  // `never`: not known yet
};

// All collectives of one communicator in order, numbered from 0. A collective has one window for
// each group of lanes. The windows of one group follow each other and never overlap:
//   group 0   | 0 |   |  1  || 2 |
//   group 1     | 0 ||  1  |   | 2 |
class CollectiveWindows {
 public:
  struct Collective {
    // The collective's end, and when each lane was ready.
    std::shared_ptr<const Event::State> state;
    int kind = 0;  // Interference::kind_of() of the collective's transfer
  };

  // `groups` is a partition of the lanes; empty = all lanes are one group. Throws std::logic_error
  // with the communicator's `name` if there are two or more groups, but a lane is in no group.
  CollectiveWindows(const std::string& name, std::size_t lanes,
                    const std::vector<std::vector<int>>& groups);

  std::size_t groups() const { return groups_; }
  // Whether all lanes have the same windows.
  bool together() const { return group_of_lane_.empty(); }
  std::size_t group_of(std::size_t lane) const {
    return group_of_lane_.empty() ? 0 : static_cast<std::size_t>(group_of_lane_[lane]);
  }
  std::size_t first() const { return first_; }  // number of the oldest collective that is stored
  // Number of collectives ever added.
  std::size_t count() const { return first_ + collectives_.size(); }
  bool forgotten(std::size_t serial) const { return serial < first_; }
  const Collective& collective(std::size_t serial) const { return collectives_[serial - first_]; }
  // The windows of one group, from collective first() on. Neighbouring collectives are groups()
  // elements apart.
  const Window* of_group(std::size_t group) const { return windows_.data() + group; }
  const Window& at(std::size_t serial, std::size_t group) const {
    return windows_[(serial - first_) * groups_ + group];
  }
  // The windows of all groups of one collective.
  std::span<Window> of(std::size_t serial) {
    return {windows_.data() + (serial - first_) * groups_, groups_};
  }
  // The windows of the collectives from `first` to `last`, both included.
  // REQUIRES: there is one group.
  std::span<const Window> between(std::size_t first, std::size_t last) const {
    assert(groups_ == 1);
    return {windows_.data() + (first - first_), last + 1 - first};
  }

  // Whether a window of any group ends after `time`.
  bool reaches(double time) const;

  // Adds the windows of the next collective, with unknown ends. Returns its number.
  std::size_t add(Collective collective);
  // Drops collectives that ended by `time` in every group, except the last one.
  void forget(double time);

 private:
  std::size_t groups_ = 1;
  std::vector<int> group_of_lane_;  // empty = one group
  std::vector<Window> windows_;     // all groups of one collective side by side
  std::vector<Collective> collectives_;
  std::size_t first_ = 0;
};

}  // namespace lockstep
