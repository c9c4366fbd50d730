// Prepares the slices of a step for the page: merges slices that are too short to see, and writes
// compact JSON in which names are numbers and times are differences in nanoseconds.
#include "results/step_timeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace lockstep {

namespace {

constexpr std::size_t named_longest = 3;  // operations per lane

double length(const TimelineSlice& slice) {
  return slice.end - slice.start;
}

// Computes busy seconds, number of operations and the longest operations of a lane.
void describe(TimelineLane& lane) {
  for (const TimelineSlice& slice : lane.slices) {
    if (is_wait(slice.kind)) continue;
    lane.busy_seconds += length(slice);
    ++lane.operations;
    lane.longest.push_back(slice);
  }
  std::stable_sort(lane.longest.begin(), lane.longest.end(),
                   [](const auto& a, const auto& b) { return length(a) > length(b); });
  lane.longest.resize(std::min(lane.longest.size(), named_longest));
}

// A slice that grows by merging. Its kind is the kind that fills most of its time.
class Bar {
 public:
  explicit Bar(const TimelineSlice& first) : bar_(first) { count(first); }
  bool takes(const TimelineSlice& next, double seconds, bool of_any_kind) const {
    return (of_any_kind || next.kind == bar_.kind) && length(bar_) < seconds &&
           length(next) < seconds && next.start - bar_.end < seconds;
  }
  void take(const TimelineSlice& next) {
    bar_.end = next.end;
    bar_.merged += next.merged;
    bar_.last_name = next.last_name.empty() ? next.name : next.last_name;
    count(next);
  }
  TimelineSlice slice() const {
    TimelineSlice result = bar_;
    const auto most = std::max_element(seconds_.begin(), seconds_.end());
    result.kind = static_cast<SliceKind>(most - seconds_.begin());
    return result;
  }

 private:
  void count(const TimelineSlice& slice) {
    seconds_[static_cast<std::size_t>(slice.kind)] += length(slice);
  }
  TimelineSlice bar_;
  std::array<double, slice_kinds.size()> seconds_{};
};

// Merges neighbouring slices whose lengths and distance are below `seconds`. When a merged slice
// reaches this length, it is complete.
std::vector<TimelineSlice> merged(const std::vector<TimelineSlice>& slices, double seconds,
                                  bool of_any_kind) {
  std::vector<TimelineSlice> result;
  std::optional<Bar> bar;
  for (const TimelineSlice& slice : slices) {
    if (bar && bar->takes(slice, seconds, of_any_kind)) {
      bar->take(slice);
      continue;
    }
    if (bar) result.push_back(bar->slice());
    bar.emplace(slice);
  }
  if (bar) result.push_back(bar->slice());
  return result;
}

std::size_t slices_of(const StepTimeline& timeline) {
  std::size_t count = 0;
  for (const TimelineLane& lane : timeline.lanes) count += lane.slices.size();
  return count;
}

std::int64_t nanoseconds(double seconds) {
  return std::llround(1e9 * seconds);
}

}  // namespace

void thin_out(StepTimeline& timeline, std::size_t most) {
  for (TimelineLane& lane : timeline.lanes) describe(lane);
  // Each limit begins with the unmerged slices.
  const std::vector<TimelineLane> whole = timeline.lanes;
  for (double share = 1.0 / 16384; share <= 1; share *= 2) {
    for (const bool of_any_kind : {false, true}) {
      if (slices_of(timeline) <= most) return;
      timeline.merged_seconds = share * timeline.seconds;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        timeline.lanes[i].slices = merged(whole[i].slices, timeline.merged_seconds, of_any_kind);
      }
    }
  }
}

nlohmann::ordered_json json_of(const StepTimeline& timeline) {
  using Json = nlohmann::ordered_json;
  std::map<std::string, int> numbers;
  Json names = Json::array();
  // Index of a name in `names`, which stores every name once.
  const auto number_of = [&](const std::string& name) {
    const auto [found, is_new] = numbers.emplace(name, static_cast<int>(numbers.size()));
    if (is_new) names.push_back(name);
    return found->second;
  };
  Json lanes = Json::array();
  for (const TimelineLane& lane : timeline.lanes) {
    Json slices = Json::array();
    std::int64_t before = 0;
    for (const TimelineSlice& slice : lane.slices) {
      // The ends are rounded, not the lengths, so that rounding errors do not add up.
      const std::int64_t start = nanoseconds(slice.start), end = nanoseconds(slice.end);
      std::string name = slice.name;
      if (slice.merged > 1 && slice.last_name != slice.name) name += " … " + slice.last_name;
      for (const std::int64_t value :
           {static_cast<std::int64_t>(slice.kind), static_cast<std::int64_t>(number_of(name)),
            start - before, end - start, static_cast<std::int64_t>(slice.merged)}) {
        slices.push_back(value);
      }
      before = end;
    }
    Json longest = Json::array();
    for (const TimelineSlice& slice : lane.longest) {
      longest.push_back({{"name", slice.name}, {"kind", slice.kind}, {"seconds", length(slice)}});
    }
    lanes.push_back({{"name", lane.name},
                     {"slices", std::move(slices)},
                     {"busy_seconds", lane.busy_seconds},
                     {"operations", lane.operations},
                     {"longest", std::move(longest)}});
  }
  return {{"strategy", timeline.strategy}, {"gpus", timeline.gpus},
          {"rank", timeline.rank},         {"step", timeline.step},
          {"seconds", timeline.seconds},   {"host_is_done", timeline.host_is_done},
          {"left_out", timeline.left_out}, {"merged_seconds", timeline.merged_seconds},
          {"names", std::move(names)},     {"lanes", std::move(lanes)}};
}

}  // namespace lockstep
