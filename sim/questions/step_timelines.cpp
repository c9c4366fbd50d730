// See step_timelines.hpp.
#include "questions/step_timelines.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "points/fork_map.hpp"
#include "points/timeline.hpp"
#include "questions/trace.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::json;

constexpr int step_without_steady_state = 3;
// Of a page, for its size; a timeline of its own has at most as many as a screen can tell apart.
constexpr std::size_t most_slices = 6000, most_slices_of_one = 2000, least_slices_of_one = 100;

// From a child to its parent.
Json wire_of(const TimelineSlice& slice) {
  return {static_cast<int>(slice.kind),
          slice.name,
          slice.start,
          slice.end,
          slice.merged,
          slice.last_name};
}

TimelineSlice slice_of(const Json& wire) {
  return {static_cast<SliceKind>(wire[0].get<int>()), wire[1], wire[2], wire[3], wire[4], wire[5]};
}

Json wire_of(const std::vector<TimelineSlice>& slices) {
  Json wire = Json::array();
  for (const TimelineSlice& slice : slices) wire.push_back(wire_of(slice));
  return wire;
}

std::vector<TimelineSlice> slices_of(const Json& wire) {
  std::vector<TimelineSlice> slices;
  for (const Json& slice : wire) slices.push_back(slice_of(slice));
  return slices;
}

std::string to_wire(const StepTimeline& timeline) {
  Json wire{timeline.rank,           timeline.step,         timeline.seconds, timeline.left_out,
            timeline.merged_seconds, timeline.host_is_done, Json::array()};
  for (const TimelineLane& lane : timeline.lanes) {
    wire.back().push_back({lane.name, wire_of(lane.slices), lane.busy_seconds, lane.operations,
                           wire_of(lane.longest)});
  }
  return wire.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StepTimeline from_wire(const std::string& text, const Point& point) {
  const Json wire = Json::parse(text);
  StepTimeline timeline{point.label, point.job.gpus, wire[0], wire[1], wire[2],
                        {},          wire[5],        wire[3], wire[4]};
  for (const Json& lane : wire[6]) {
    timeline.lanes.push_back({lane[0], slices_of(lane[1]), lane[2], lane[3], slices_of(lane[4])});
  }
  return timeline;
}

// The last step but one: the host may issue the last while the device does this one.
int step_of(const Prediction& predicted, const Job& job) {
  return predicted.extrapolated ? std::max(1, predicted.simulated_steps - 2)
                                : std::min(step_without_steady_state, job.simulation.steps);
}

// In a child.
PoolAnswer watched(const Point& point, const Prediction& predicted, std::size_t most) {
  Job job = point.job;
  const int step = step_of(predicted, job);
  job.simulation.steps = step + 1;
  job.simulation.engine = engine_of(predicted);
  Timeline timeline(job, {.ranks = {0}, .first_step = step, .last_step = step});
  job.simulation.observer = &timeline;
  point.strategy->simulate(job);
  StepTimeline seen = timeline.step(step);
  thin_out(seen, most);
  return {to_wire(seen), true};
}

}  // namespace

std::vector<StepTimeline> step_timelines(const std::vector<Point>& points,
                                         const ResultRecord& record, int workers) {
  std::vector<std::pair<const Point*, const Prediction*>> shown;
  for (const Point& point : points) {
    if (const Prediction* p = prediction_of(record, point)) shown.emplace_back(&point, p);
  }
  const std::size_t most = std::clamp(most_slices / std::max<std::size_t>(1, shown.size()),
                                      least_slices_of_one, most_slices_of_one);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const ForkOptions fork{.workers = workers > 0 ? workers : cores};
  const auto answers = fork_map(shown.size(), fork, [&](std::size_t i, const Report&) {
    return watched(*shown[i].first, *shown[i].second, most);
  });
  std::vector<StepTimeline> timelines;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!answers[i].ok) continue;
    StepTimeline timeline = from_wire(answers[i].output, *shown[i].first);
    if (!timeline.lanes.empty()) timelines.push_back(std::move(timeline));
  }
  return timelines;
}

}  // namespace lockstep
