// Simulates each traced point one more time, in a child process with a Timeline as observer
// (SimGrid allows one world per process). The child returns finished text; the parent writes files.
#include "questions/trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/output.hpp"
#include "points/fork_map.hpp"
#include "questions/anchor.hpp"
#include "results/cells.hpp"
#include "timeline/timeline.hpp"

namespace lockstep {

namespace {

constexpr int default_steps = 3;  // number of traced steps if each has one micro-batch

template <class Value>
bool has(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::vector<int> gpu_counts(const Scenario& scenario) {
  return {scenario.gpus.begin(), scenario.gpus.end()};
}

// A path is a folder if it ends with '/' or is an existing folder.
bool is_folder(const std::string& path) {
  return path.ends_with('/') || std::filesystem::is_directory(path);
}

// The prediction of the point; null if its simulation failed.
const Prediction* prediction_of(const ResultRecord& record, const Point& point) {
  for (const Prediction& p : record.predictions) {
    if (p.strategy == point.label && p.gpus == point.job.mesh.gpus()) return &p;
  }
  return nullptr;
}

// The executor (engine/executor.hpp) that computed the prediction, from its name in the record.
Engine engine_of(const Prediction& predicted) {
  const auto& engines = EnumNames<Engine>::names;
  const auto engine = std::find(engines.begin(), engines.end(), predicted.engine);
  return static_cast<Engine>(engine - engines.begin());
}

// A point with the ranks and steps to watch, and the executor of its prediction. `automatic` could
// choose another executor, because it depends on the number of steps, which a trace changes.
struct TracedPoint {
  Point point;
  TimelineOptions timeline;
  Engine engine;
};

// Selects the points and steps that the options name.
std::vector<TracedPoint> traced_points(std::vector<Point> points, const TraceOptions& options,
                                       const ResultRecord& record) {
  std::map<std::size_t, int> most;  // by strategy entry
  for (const Point& point : points) {
    most[point.entry] = std::max(most[point.entry], point.job.mesh.gpus());
  }
  std::vector<TracedPoint> result;
  for (Point& point : points) {
    if (!options.strategies.empty() && !has(options.strategies, point.label)) continue;
    if (options.gpus.empty() ? point.job.mesh.gpus() != most[point.entry]
                             : !has(options.gpus, point.job.mesh.gpus())) {
      continue;
    }
    const Prediction* predicted = prediction_of(record, point);
    if (predicted == nullptr) continue;  // the simulation failed; the record says so
    TimelineOptions timeline{options.ranks};
    // A step with many micro-batches is long, so one such step is enough.
    const int steps = std::max(1, default_steps / point.job.accumulation);
    if (options.steps) {
      std::tie(timeline.first_step, timeline.last_step) = *options.steps;
    } else if (predicted->extrapolated) {
      timeline.last_step = std::max(1, predicted->simulated_steps - 1);
      timeline.first_step = std::max(1, timeline.last_step - steps + 1);
    } else {
      timeline.last_step = std::min(steps, point.job.simulation.steps);
    }
    result.push_back({std::move(point), timeline, engine_of(*predicted)});
  }
  return result;
}

// Runs in a child process: simulates `steps` steps under a timeline and returns tell(timeline,
// job). The process ends afterwards.
PoolAnswer watched(const TracedPoint& traced, int steps,
                   const std::function<std::string(Timeline&, Job&)>& tell) {
  Job job = traced.point.job;
  job.simulation.steps = std::max(1, steps);
  job.simulation.engine = traced.engine;
  Timeline timeline(job, traced.timeline);
  job.simulation.observer = &timeline;
  traced.point.strategy->simulate(job);
  return {tell(timeline, job), true};
}

ForkOptions fork_options(int workers) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return {.workers = workers > 0 ? workers : cores};
}

// Separator in a child's answer for a folder. The answer repeats three texts: a rank, the length of
// the rank's file (0 = no file), and the file.
constexpr char between = '\0';

// Runs in a child process: returns the events of one point, as one text or as one file per rank.
// `place` is the number of the point in a file with several points.
PoolAnswer simulated_events(const TracedPoint& traced, bool by_rank, TraceFormat format,
                            int place) {
  return watched(traced, traced.timeline.last_step, [&](Timeline& timeline, Job& job) {
    MemoryLog memory;
    traced.point.strategy->memory(job, {.log = &memory});
    timeline.set_memory(std::move(memory));
    const std::string heading = point_text(traced.point.label, job.mesh.gpus()) + ": ";
    if (!by_rank) return timeline.events(heading, place);
    std::string result;
    for (const int rank : timeline.ranks()) {
      std::string file;
      if (format == TraceFormat::kineto) {
        file = timeline.events(heading, place, rank);
      } else if (const std::vector<ChakraNode> nodes = timeline.chakra(rank); !nodes.empty()) {
        file = chakra_bytes(nodes);
      }
      result += fmt::format("{}{}{}{}{}", rank, between, file.size(), between, file);
    }
    return result;
  });
}

// The head of a trace document: title, device, backend, number of ranks.
TraceHeader header_of(const Point& point) {
  const Device& device = point.job.machine.device;
  TraceHeader header;
  header.title = point_text(point.label, point.job.mesh.gpus());
  header.device = device.title;
  header.backend = device.architecture == Architecture::cpu ? "gloo" : "nccl";
  header.ranks = point.job.mesh.gpus();
  return header;
}

// The label with every character replaced by - that is not a letter, a digit, - _ or a dot.
std::string file_name(std::string label) {
  for (char& c : label) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
      c = '-';
  }
  return label;
}

// Splits a child's answer into its files and writes them.
void write_by_rank(const TracedPoint& traced, const std::string& answer, const std::string& folder,
                   TraceFormat format, WrittenTraces& written) {
  const Point& point = traced.point;
  const auto place = std::filesystem::path(folder) /
                     fmt::format("{}-{}", file_name(point.label), point.job.mesh.gpus());
  std::error_code error;
  std::filesystem::create_directories(place, error);
  if (error) throw OutputError(place.string() + ": " + error.message());
  std::size_t from = 0;
  const auto next = [&] {
    const std::size_t to = answer.find(between, from);
    return answer.substr(std::exchange(from, to + 1), to - from);
  };
  while (from < answer.size()) {
    TraceHeader header = header_of(point);
    header.rank = std::stoi(next());
    const std::size_t size = std::stoull(next());
    const std::string file = answer.substr(std::exchange(from, from + size), size);
    if (size == 0) {
      written.left_out.push_back(fmt::format(
          "{}: rank {} is slower and does not come to the end of step {}",
          point_text(point.label, point.job.mesh.gpus()), header.rank, traced.timeline.first_step));
      continue;
    }
    const bool chakra = format == TraceFormat::chakra;
    const std::string name = chakra ? fmt::format("chakra.{}.et", header.rank)
                                    : fmt::format("rank-{}.json.gz", header.rank);
    written.files.push_back((place / name).string());
    write_trace(written.files.back(), chakra ? file : trace_document(header, file));
  }
}

}  // namespace

void check_trace(const Scenario& scenario, const TraceOptions& options) {
  std::vector<std::string> labels;
  for (const StrategyEntry& entry : scenario.strategies) labels.push_back(entry.label);
  for (const std::string& label : options.strategies) {
    if (has(labels, label)) continue;
    throw file_error(scenario.file, "--trace-strategy",
                     in_quotes(label) + " is no strategy of this scenario",
                     allowed_hint(label, labels));
  }
  const std::vector<int> counts = gpu_counts(scenario);
  for (const int gpus : options.gpus) {
    if (has(counts, gpus)) continue;
    throw file_error(scenario.file, "--trace-gpus",
                     fmt::format("{} is no GPU count of this scenario", gpus),
                     fmt::format("allowed: {}", fmt::join(counts, ", ")));
  }
  const int most = *std::max_element(counts.begin(), counts.end());
  for (const int rank : options.ranks) {
    if (rank < most) continue;
    throw file_error(scenario.file, "--trace-ranks",
                     fmt::format("there is no rank {} of {} GPUs", rank, most),
                     fmt::format("allowed: 0 to {}", most - 1));
  }
  if (is_folder(options.path)) return;
  if (options.format == TraceFormat::chakra)
    throw file_error("", "--trace", "a Chakra trace has a file for each rank: name a folder",
                     options.path + "/");
  // A wrong path must fail before the simulations, which may take hours.
  const std::filesystem::path parent = std::filesystem::absolute(options.path).parent_path();
  if (::access(parent.c_str(), W_OK) != 0) {
    throw OutputError(fmt::format("cannot write {}: {}", options.path, std::strerror(errno)));
  }
}

WrittenTraces write_traces(const Scenario& scenario, const TraceOptions& options,
                           const ResultRecord& record, const RunOptions& run) {
  const std::vector<TracedPoint> traced =
      traced_points(expand(scenario, anchor_scales(scenario, run)), options, record);
  const bool by_rank = is_folder(options.path);
  // Each point is one piece of work. The parent joins all events to one file, or divides a point's
  // answer by rank.
  const auto answers =
      fork_map(traced.size(), fork_options(run.workers), [&](std::size_t i, const Report&) {
        return simulated_events(traced[i], by_rank, options.format, static_cast<int>(i));
      });
  WrittenTraces written;
  std::string all;
  for (std::size_t i = 0; i < traced.size(); ++i) {
    const Point& point = traced[i].point;
    if (!answers[i].ok) {
      throw std::runtime_error(point_text(point.label, point.job.mesh.gpus()) + ": " +
                               answers[i].output);
    }
    if (by_rank) {
      write_by_rank(traced[i], answers[i].output, options.path, options.format, written);
    } else {
      all += (all.empty() ? "" : ",\n") + answers[i].output;
    }
  }
  if (!by_rank && !traced.empty()) {
    TraceHeader header = header_of(traced.front().point);
    if (traced.size() > 1) header.title = scenario.name;
    write_trace(options.path, trace_document(header, all));
    written.files.push_back(options.path);
  }
  return written;
}

namespace {

// The step that the page shows if a job has no steady state.
constexpr int step_without_steady_state = 3;
// Limits of the number of slices: on one page, to limit the page's size, and in one timeline,
// because a screen cannot show more.
constexpr std::size_t most_slices = 6000, most_slices_of_one = 2000, least_slices_of_one = 100;

// The step to show. In a steady state it is the last simulated step but one, so that the host's
// work on the next step is visible, too.
int step_of(const Prediction& predicted, const Job& job) {
  return predicted.extrapolated ? std::max(1, predicted.simulated_steps - 2)
                                : std::min(step_without_steady_state, job.simulation.steps);
}

}  // namespace

std::vector<nlohmann::ordered_json> step_timelines(std::vector<Point> points,
                                                   const ResultRecord& record, int workers) {
  using Json = nlohmann::ordered_json;
  std::vector<TracedPoint> shown;
  for (Point& point : points) {
    const Prediction* predicted = prediction_of(record, point);
    if (predicted == nullptr) continue;
    const int step = step_of(*predicted, point.job);
    shown.push_back({std::move(point),
                     {.ranks = {0}, .first_step = step, .last_step = step},
                     engine_of(*predicted)});
  }
  // All timelines share the page's slices equally, within the limits of one timeline.
  const std::size_t most = std::clamp(most_slices / std::max<std::size_t>(1, shown.size()),
                                      least_slices_of_one, most_slices_of_one);
  const auto answers =
      fork_map(shown.size(), fork_options(workers), [&](std::size_t i, const Report&) {
        const int step = shown[i].timeline.last_step;
        return watched(shown[i], step + 1, [&](Timeline& timeline, Job& job) {
          StepTimeline lanes = timeline.step(step);
          lanes.strategy = shown[i].point.label;
          lanes.gpus = job.mesh.gpus();
          thin_out(lanes, most);
          return json_of(lanes).dump(-1, ' ', false, Json::error_handler_t::replace);
        });
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
