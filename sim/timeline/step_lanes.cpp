// Renders one step of a timeline as lanes of slices (rows of bars), for the picture of `lockstep
// report`. The step lasts as long as on the rank's compute stream; all other streams are cut to
// that period.
//
//   compute       |forward|backward |exposed|update|
//   communicator           |all_reduce|all_reduce|
//   host          |issues|....|synchronizes|
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "core/units.hpp"
#include "timeline/timeline.hpp"
#include "timeline/traced_names.hpp"

namespace lockstep {

namespace {

// Routes to different servers look alike, so only the first four streams of pushes and of pulls are
// drawn.
constexpr int most_ways = 4;

// The list has the order of WaitCause. Its last value is a pipeline's bubble, which counts as
// waiting.
SliceKind kind_of(WaitCause cause) {
  constexpr std::array kinds{SliceKind::exposed_communication,
                             SliceKind::data_loading,
                             SliceKind::waiting,
                             SliceKind::copying,
                             SliceKind::host_bound,
                             SliceKind::updating,
                             SliceKind::waiting};
  return kinds[static_cast<std::size_t>(cause)];
}

// The list has the order of Phase.
SliceKind kind_of(Phase phase) {
  constexpr std::array kinds{SliceKind::forward, SliceKind::backward, SliceKind::optimizer,
                             SliceKind::copies};
  return kinds[static_cast<std::size_t>(phase)];
}

// Whether the stream is a route of messages to or from a parameter server.
bool is_way(std::string_view stream) {
  return stream.starts_with("push to ") || stream.starts_with("pull from ");
}

// Order of the lanes: compute, other device streams, pushes, pulls, the host. The compute stream
// comes first because it defines the step. Pushes and pulls are in the order of the servers'
// numbers ("push to 10" is longer than "push to 9"), other streams keep the order of their first
// use.
std::tuple<int, std::size_t, std::string_view> place_of(std::string_view stream) {
  if (stream == "compute") return {0, 0, {}};
  if (stream.starts_with("push to ")) return {2, stream.size(), stream};
  if (stream.starts_with("pull from ")) return {3, stream.size(), stream};
  return {is_on_device(stream) ? 1 : 4, 0, {}};
}

}  // namespace

TimelineLane Timeline::lane_of_step(const Lane& lane, int stream, double begin, double end) const {
  TimelineLane result;
  result.name = lane.streams[static_cast<std::size_t>(stream)];
  for (const Entry& entry : lane.entries) {
    // Keeps entries that overlap the step, and cuts them to it.
    if (entry.stream != stream || entry.end <= begin || entry.start >= end) continue;
    if (entry.end <= entry.start) continue;
    TimelineSlice slice;
    slice.start = std::max(entry.start, begin) - begin;
    slice.end = std::min(entry.end, end) - begin;
    if (entry.kind == Entry::Kind::wait) {
      // A waiting host is blocked in a call such as cudaEventSynchronize; only the device's waits
      // are classified by cause.
      slice.kind = result.name == "host" ? SliceKind::synchronising : kind_of(entry.cause);
      slice.name = cause_name(entry.cause);
    } else if (entry.kind == Entry::Kind::transfer) {
      slice.kind = SliceKind::transfer;
      slice.name = fmt::format("{}{}{}, {}", entry.name, entry.carried.empty() ? "" : " ",
                               entry.carried, human(entry.bytes, Dimension::bytes));
    } else {
      slice.kind = kind_of(entry.phase);
      slice.name = entry.name.empty() ? result.name : std::string(entry.name);
    }
    result.slices.push_back(std::move(slice));
  }
  std::stable_sort(result.slices.begin(), result.slices.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return result;
}

StepTimeline Timeline::step(int index) const {
  StepTimeline result;
  result.step = index;
  const Group* group = workers();
  if (group == nullptr || group->shown.empty()) return result;
  result.rank = group->shown.front();
  const Lane& lane = group->lanes.at(group->lane_of_rank[static_cast<std::size_t>(result.rank)]);
  const StepSpan* span = span_of(lane, "compute", index);
  if (span == nullptr) return result;
  result.seconds = span->end - span->start;

  std::vector<int> streams(lane.streams.size());
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i] = static_cast<int>(i);
  const auto name = [&](int stream) { return lane.streams[static_cast<std::size_t>(stream)]; };
  std::stable_sort(streams.begin(), streams.end(),
                   [&](int a, int b) { return place_of(name(a)) < place_of(name(b)); });
  std::map<std::string_view, int> ways;  // pushes, pulls
  for (const int stream : streams) {
    TimelineLane drawn = lane_of_step(lane, stream, span->start, span->end);
    // A host that does nothing in this period has issued the whole step before the device began it.
    if (drawn.name == "host") result.host_is_done = drawn.slices.empty();
    if (drawn.slices.empty()) continue;
    if (is_way(drawn.name) && ++ways[name(stream).substr(0, 4)] > most_ways) {
      ++result.left_out;
      continue;
    }
    result.lanes.push_back(std::move(drawn));
  }
  // Adds the other stages of a pipeline: for each stage, the compute stream of one rank in the same
  // period.
  for (const auto& [group_name, stage] : groups_) {
    if (are_servers(group_name) || &stage == group || stage.shown.empty()) continue;
    const int shown = stage.shown.front();
    const Lane& other = stage.lanes.at(stage.lane_of_rank[static_cast<std::size_t>(shown)]);
    for (std::size_t stream = 0; stream < other.streams.size(); ++stream) {
      if (other.streams[stream] != "compute") continue;
      TimelineLane drawn = lane_of_step(other, static_cast<int>(stream), span->start, span->end);
      drawn.name = group_name;
      result.lanes.push_back(std::move(drawn));
    }
  }
  // Adds all streams of the first server that were busy during the step.
  for (const auto& [group_name, servers] : groups_) {
    if (!are_servers(group_name) || servers.shown.empty()) continue;
    const int shown = servers.shown.front();
    const Lane& served = servers.lanes.at(servers.lane_of_rank[static_cast<std::size_t>(shown)]);
    for (std::size_t stream = 0; stream < served.streams.size(); ++stream) {
      TimelineLane drawn = lane_of_step(served, static_cast<int>(stream), span->start, span->end);
      if (drawn.slices.empty()) continue;
      drawn.name = fmt::format("server {}: {}", shown, drawn.name);
      result.lanes.push_back(std::move(drawn));
    }
  }
  return result;
}

}  // namespace lockstep
