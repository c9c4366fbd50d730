// Judges a job with increasing effort: lower bounds of its time, then its memory, then its
// simulation. The first two exclude most candidates of a large search.
#include "sweep/judge.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "points/fork_map.hpp"
#include "points/measured.hpp"
#include "points/predict.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::json;

constexpr const char* too_slow = "is slower for certain than with a larger micro-batch";
constexpr const char* host_too_small = "needs more memory than a host has";
constexpr const char* drives_too_small = "needs more than a node's NVMe drives hold";

// Whether the job fits into its device and node, and meets the user's limit of device memory.
bool may_be_used(const MemoryUse& memory, const RecommendOptions& options) {
  return fits(memory) && (options.memory <= 0 || memory.device <= options.memory);
}

// Converts a verdict to a list of its members, or a judgement without a verdict to its reason.
// from_json() is the inverse.
Json to_json(const Judgement& judged) {
  if (!judged.verdict) return judged.left_out;
  const Verdict& v = *judged.verdict;
  Json energy = Json::array();
  if (v.energy) {
    energy = {v.energy->kilowatt_hours.low, v.energy->kilowatt_hours.high};
    if (const auto& co2 = v.energy->carbon_kilograms) {
      energy.push_back(co2->low);
      energy.push_back(co2->high);
    }
  }
  const StepError& error = v.error;
  const Json errors = {error.work, error.network, error.scaling, error.servers, error.draws};
  return Json::array({v.step, v.total, v.dollars, v.rented, v.device, v.staleness, v.bottleneck,
                      errors, v.without_autocast, energy});
}
Judgement from_json(const Json& j) {
  if (j.is_string()) return {std::nullopt, j};
  std::optional<Energy> energy;
  const Json &error = j[7], &e = j[9];
  if (!e.empty()) energy = Energy{{e[0], e[1]}, {}};
  if (e.size() > 2) energy->carbon_kilograms = Interval{e[2], e[3]};
  const StepError sigmas{error[0], error[1], error[2], error[3], error[4]};
  return {Verdict{j[0], j[1], j[2], j[3], j[4], j[5], j[6], sigmas, j[8], energy, {}}, ""};
}

}  // namespace

std::string judgements_text(const std::vector<Judgement>& list) {
  Json json = Json::array();
  for (const Judgement& judged : list) json.push_back(to_json(judged));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Judgement> read_judgements(const std::string& text) {
  std::vector<Judgement> list;
  for (const Json& judged : Json::parse(text)) list.push_back(from_json(judged));
  return list;
}

int rented_gpus(const Scenario& scenario, int gpus, const Machine& machine) {
  const int node = machine.gpus_per_node;
  return scenario.price_per_gpu_hour ? gpus : (gpus + node - 1) / node * node;
}

double least_step_seconds(const Point& point) {
  const Stragglers& stragglers = point.job.stragglers;
  if (stragglers.per_step || !stragglers.slow_ranks.empty() || !stragglers.other_devices.empty() ||
      stragglers.per_rank_sigma.value_or(0) > usual_spread) {
    return 0;  // some ranks may be faster than the device's file says
  }
  // Ranks that wait for each other run at the pace of the slowest, which is no faster than the
  // device's file says. Independent workers average over ranks, and some ranks are faster than the
  // file says: the bound allows five sigma for that.
  const double fastest = point.strategy->outlives_workers() ? 1 - 5 * usual_spread : 1;
  return fastest * point.compute_seconds;
}

std::vector<Judgement> Judge::judge(const Group& group, const Report& report) {
  std::vector<Judgement> list;
  // Larger micro-batches come first; the fastest run so far bounds every smaller micro-batch.
  double fastest = never;
  for (const Scenario& scenario : group) {
    const bool smallest = &scenario == &group.back();
    list.push_back(judge(scenario, smallest ? never : fastest, report));
    if (!list.back().verdict) continue;
    fastest = std::min(fastest, list.back().verdict->total);
  }
  return list;
}

Judgement Judge::judge(const Scenario& scenario, double fastest, const Report& report) {
  try {
    const Point point = expand(scenario, files_.of(scenario), workloads_).front();
    const int rented = rented_gpus(scenario, point.job.mesh.gpus(), point.job.machine);
    const double rate = rented * point.job.machine.price_per_gpu_hour / 3600;
    const double steps = steps_of_run(scenario, point);
    // The reason why a job whose step takes at least `least_step` seconds is left out; null = none.
    const auto ruled_out = [&](double least_step) -> const char* {
      const double least = steps * least_step;
      if (options_.by != RankBy::memory && least > fastest) return too_slow;
      if (options_.deadline > 0 && least > options_.deadline) return misses_deadline;
      return options_.budget > 0 && least * rate > options_.budget ? exceeds_budget : nullptr;
    };
    if (const char* why = ruled_out(least_step_seconds(point))) return {std::nullopt, why};
    Job job = point.job;
    const bool limited = fastest < never || options_.deadline > 0 || options_.budget > 0;
    const double carried = limited ? point.strategy->least_communication_seconds(job) : 0;
    if (const char* why = ruled_out(carried)) return {std::nullopt, why};
    job.simulation.progress = report;
    // SimGrid would need a process for each job. The loop executor gives the same times up to
    // rounding.
    job.simulation.engine = Engine::loop;
    const MemoryUse memory = point.strategy->memory(job, memory_asked(job));
    if (!fits_host(memory)) return {std::nullopt, host_too_small};
    if (!fits_nvme(memory)) return {std::nullopt, drives_too_small};
    if (!may_be_used(memory, options_)) return {std::nullopt, too_large};
    StrategyResult result = point.strategy->simulate(job);
    result.memory = memory;
    const Prediction p = summarise_point(scenario, point, result);
    return {Verdict{p.step_seconds,
                    p.total_seconds,
                    p.total_seconds * rate,
                    rented,
                    p.memory.device,
                    p.staleness ? p.staleness->mean : 0,
                    p.bottleneck,
                    p.step_error,
                    is_autocast(point.precision) && !is_autocast(point.step_options.precision) &&
                        !point.step_options.autocast,
                    p.energy,
                    {}},
            ""};
  } catch (const ConfigError& error) {
    return {std::nullopt, "cannot be: " + error.diagnostics().front().message};
  }
}

// The replay may stop at a peak beyond the usable memory, because such a peak need not be exact.
// Jobs without a mesh share known numbers about the memory of equal steps.
MemoryQuery Judge::memory_asked(const Job& job) {
  MemoryQuery query;
  if (job.mesh.only_data()) query.known = &known_[job.step];
  for (const double most : {job.machine.device.memory_bytes, options_.memory}) {
    if (most > 0) query.most = std::min(query.most, most);
  }
  return query;
}

int workers_of(const RunOptions& run) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return run.workers > 0 ? run.workers : cores;
}

std::vector<Judgement> judge_groups(const InputFiles& files, const std::vector<Group>& groups,
                                    const RecommendOptions& options) {
  const auto judge = std::make_shared<Judge>(files, options);
  const RunOptions& run = options.run;
  ForkOptions fork{.workers = workers_of(run), .most_silence = 600};
  if (run.progress) {
    fork.on_done = [&](std::size_t done) {
      run.progress({.done = done, .all = groups.size(), .point = "", .fraction = 0});
    };
  }
  const auto work = [&, judge](std::size_t i, const Report& report) -> PoolAnswer {
    return judgements_text(judge->judge(groups[i], report));
  };
  std::vector<Judgement> all;
  const auto results = fork_map(groups.size(), fork, work);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!results[g].ok) {
      all.insert(all.end(), groups[g].size(), {std::nullopt, results[g].output});
      continue;
    }
    const std::vector<Judgement> list = read_judgements(results[g].output);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace lockstep
