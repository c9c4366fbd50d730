// See faults.hpp.
#include "points/faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/statistics.hpp"
#include "costs/optimizer.hpp"
#include "faults/period.hpp"
#include "faults/runs.hpp"

namespace lockstep {

namespace {

int nodes_of(int gpus, const Machine& machine) {
  return (gpus + machine.gpus_per_node - 1) / machine.gpus_per_node;
}

double per_second(const std::optional<double>& mean_time) {
  return mean_time ? 1 / *mean_time : 0;
}

// Parameters as the model holds them, the optimizer's state and what BatchNorm counts.
double state_bytes(const Point& point) {
  const double each = parameter_bytes(point.precision) +
                      optimizer_state_bytes(point.job.optimizer, point.precision);
  double bytes = static_cast<double>(point.step->parameter_count) * each;
  for (const Layer& layer : point.step->layers) bytes += layer.buffer_bytes;
  return bytes;
}

// Steps of all nodes that `nodes` of them do in a second: batches per GPU stay what they are. 0 where
// the strategy cannot be divided among so many (a shard group, backup workers).
double simulated_speed(const Point& point, int nodes, double samples_per_step) {
  Job job = complete_job(point);
  job.gpus = std::min(job.gpus, nodes * job.machine.gpus_per_node);
  job.engine = Engine::loop;  // beside other simulations of this process
  try {
    const StrategyResult fewer = point.strategy->simulate(job);
    return fewer.samples_per_step / mean(fewer.step_seconds) / samples_per_step;
  } catch (const ConfigError&) {
    return 0;
  }
}

// Simulated with 1, 2, 4, ... nodes missing; between them on a straight line. Of nodes that the
// strategy cannot be divided among some stand idle; where it can train with none of them it is 0.
std::vector<double> elastic_speeds(const Point& point, int least, double all,
                                   double samples_per_step) {
  const int nodes = nodes_of(point.job.gpus, point.job.machine);
  std::map<int, double> simulated;
  const auto speed_of = [&](int n) {
    for (; n > 0; --n) {
      const auto [known, is_new] = simulated.try_emplace(n);
      if (is_new) known->second = simulated_speed(point, n, samples_per_step);
      if (known->second > 0) return known->second;
    }
    return 0.0;
  };
  std::vector<double> speeds(static_cast<std::size_t>(nodes) + 1, 0);
  speeds.back() = all;
  while (least < nodes && speed_of(least) <= 0) ++least;
  int above = nodes;
  for (int missing = 1; above > least; missing *= 2) {
    const int below = std::max(least, nodes - missing);
    const double speed = speed_of(below);
    const double slope = (speeds[static_cast<std::size_t>(above)] - speed) / (above - below);
    for (int n = below; n < above; ++n) {
      speeds[static_cast<std::size_t>(n)] = speed + slope * (n - below);
    }
    above = below;
  }
  return speeds;
}

// Seconds between two failures that stop the job.
double seconds_between_stops(const LongRun& plan) {
  const int nodes = plan.independent_workers ? plan.state_nodes : plan.nodes();
  const double rate =
      nodes * plan.speeds.node + plan.servers * plan.speeds.server + plan.speeds.job;
  if (rate > 0) return 1 / rate;
  double given = 0;
  for (const GivenFailure& one : plan.faults.at) {
    if (!one.node || *one.node < nodes) ++given;
  }
  if (given == 0) return std::numeric_limits<double>::infinity();
  return plan.steps / plan.steps_per_second.back() / given;
}

}  // namespace

void check_faults(const Scenario& scenario, const Machine& machine, Misfits& misfits) {
  if (!scenario.faults) return;
  const Faults& faults = *scenario.faults;
  const int most = nodes_of(*std::max_element(scenario.gpus.begin(), scenario.gpus.end()), machine);
  const auto gpus = [&](int nodes) {
    return fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
  };
  if (faults.min_nodes > most) {
    misfits.add(faults.where, "faults.min_nodes",
                fmt::format("{} nodes, but the job has {}", faults.min_nodes, gpus(most)));
  }
  if (most + faults.spare_nodes > machine.max_nodes) {
    misfits.add(faults.where, "faults.spare_nodes",
                fmt::format("{} beside {} in use, but {} has at most {}", faults.spare_nodes,
                            gpus(most), machine.name, machine.max_nodes));
  }
  int servers = 0;
  for (const StrategyEntry& entry : scenario.strategies) {
    Job job;
    job.machine = machine;
    job.gpus = machine.gpus_per_node * most;
    if (const auto* options = std::get_if<ParameterServerOptions>(&entry.options)) {
      servers = std::max(servers, make_strategy(*options)->state_hosts(job).servers);
    }
  }
  std::set<int> lost;
  for (const GivenFailure& one : faults.at) {
    if (one.server && *one.server >= servers) {
      misfits.add(one.where, "faults.at.server", fmt::format("there is no server {}", *one.server),
                  servers == 0 ? "servers fail by themselves with `placement: own-hosts`"
                               : fmt::format("servers are 0 to {}", servers - 1));
    }
    if (!one.node) continue;
    const int all = most + faults.spare_nodes;
    if (*one.node >= all) {
      misfits.add(one.where, "faults.at.node", fmt::format("there is no node {}", *one.node),
                  fmt::format("nodes are 0 to {}, spare ones last", all - 1));
    }
    lost.insert(*one.node);
    const bool elastic = faults.recovery == Recovery::elastic;
    const int left = all - static_cast<int>(lost.size());
    if (!faults.repair_seconds && left < (elastic ? faults.min_nodes : most)) {
      misfits.add(one.where, "faults.at",
                  fmt::format("{} failed nodes are more than the job can do without", lost.size()),
                  "more spare_nodes, or `repair: 1 h`");
      break;
    }
  }
}

RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction) {
  const Faults& faults = *scenario.faults;
  const Checkpoints checkpoints = scenario.checkpoints.value_or(Checkpoints{});
  const Job job = complete_job(point);
  const StateHosts hosts = point.strategy->state_hosts(job);
  const int nodes = nodes_of(job.gpus, job.machine);
  const double all = 1 / prediction.step_seconds;
  const bool loose = point.strategy->outlives_workers();
  const bool elastic =
      faults.recovery.value_or(loose ? Recovery::elastic : Recovery::restart) == Recovery::elastic;

  LongRun plan;
  plan.faults = faults;
  plan.steps = prediction.steps;
  plan.steps_per_second.assign(static_cast<std::size_t>(nodes) + 1, 0);
  plan.steps_per_second.back() = all;
  if (elastic) {
    plan.steps_per_second =
        elastic_speeds(point, std::min(faults.min_nodes, nodes), all, result.samples_per_step);
  }
  plan.independent_workers = elastic && loose;
  plan.state_nodes = hosts.nodes;
  plan.servers = hosts.servers;
  plan.speeds.node = per_second(faults.between.node) +
                     static_cast<double>(job.gpus) / nodes * per_second(faults.between.gpu);
  plan.speeds.server = per_second(faults.between.server);
  plan.speeds.job = per_second(faults.between.job);

  const double bytes = checkpoints.bytes.value_or(state_bytes(point));
  const double write = bytes / (hosts.nodes + hosts.servers) / checkpoints.bytes_per_second;
  plan.write_seconds = plan.read_seconds = write;
  const double period = checkpoints.every_seconds.value_or(
      best_checkpoint_period(write, seconds_between_stops(plan)));
  plan.steps_between_checkpoints =
      std::isinf(period) ? period : std::max(1.0, std::round(period * all));

  RunWithFailures run = play_all(plan, job.seed);
  run.checkpoint_bytes = bytes;
  run.checkpoint_seconds = write;
  if (!std::isinf(period)) {
    run.checkpoint_period_seconds = plan.steps_between_checkpoints * prediction.step_seconds;
  }
  if (prediction.out_of_memory) return run;  // what cannot run has no price
  const int paid = job.gpus + faults.spare_nodes * job.machine.gpus_per_node;
  run.dollars = run.finish_seconds / 3600 * paid * job.machine.price_per_gpu_hour;
  return run;
}

}  // namespace lockstep
