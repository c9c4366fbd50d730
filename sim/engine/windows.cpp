// Stores the windows of collectives by group, and drops windows that are over. A long run has
// millions of collectives, but only windows that overlap work in progress are ever read.
#include "engine/windows.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

CollectiveWindows::CollectiveWindows(const std::string& name, std::size_t lanes,
                                     const std::vector<std::vector<int>>& groups)
    : groups_(std::max<std::size_t>(1, groups.size())) {
  if (groups.size() < 2) return;
  group_of_lane_.assign(lanes, -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const int lane : groups[g]) {
      group_of_lane_.at(static_cast<std::size_t>(lane)) = static_cast<int>(g);
    }
  }
  if (std::count(group_of_lane_.begin(), group_of_lane_.end(), -1) > 0) {
    throw std::logic_error("communicator " + name + ": its groups do not cover every lane");
  }
}

// Windows of a group never overlap, so the windows of the latest collective end last.
bool CollectiveWindows::reaches(double time) const {
  const auto latest =
      windows_.end() - static_cast<std::ptrdiff_t>(std::min(groups_, windows_.size()));
  return std::any_of(latest, windows_.end(),
                     [time](const Window& last) { return last.end > time; });
}

std::size_t CollectiveWindows::add(Collective collective) {
  collectives_.push_back(std::move(collective));
  windows_.resize(windows_.size() + groups_);
  return count() - 1;
}

void CollectiveWindows::forget(double time) {
  std::size_t over = 0;
  while (over < windows_.size() && windows_[over].end <= time) ++over;
  // A collective that is over in some groups only is still needed.
  over /= groups_;
  // The latest one stays, because the next collective starts after its end.
  if (over > 0 && over == collectives_.size()) --over;
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(over * groups_));
  collectives_.erase(collectives_.begin(),
                     collectives_.begin() + static_cast<std::ptrdiff_t>(over));
  first_ += over;
}

}  // namespace lockstep
