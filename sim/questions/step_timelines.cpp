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

using Json = nlohmann::ordered_json;

constexpr int step_without_steady_state = 3;
// Of a page, for its size; a timeline of its own has at most as many as a screen can tell apart.
constexpr std::size_t most_slices = 6000, most_slices_of_one = 2000, least_slices_of_one = 100;

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
  StepTimeline shown = timeline.step(step);
  shown.strategy = point.label;
  shown.gpus = job.gpus;
  thin_out(shown, most);
  return {json_of(shown).dump(-1, ' ', false, Json::error_handler_t::replace), true};
}

}  // namespace

std::vector<Json> step_timelines(const std::vector<Point>& points, const ResultRecord& record,
                                 int workers) {
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
  std::vector<Json> timelines;
  for (const ForkResult& answer : answers) {
    if (!answer.ok) continue;
    Json timeline = Json::parse(answer.output);
    if (!timeline["lanes"].empty()) timelines.push_back(std::move(timeline));
  }
  return timelines;
}

}  // namespace lockstep
