// Checks what a scenario says of failures, and plays the run of a point.
#include "points/faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "core/statistics.hpp"
#include "costs/optimizer.hpp"
#include "faults/long_run.hpp"

namespace lockstep {

namespace {

double per_second(const std::optional<double>& mean_time) {
  return mean_time ? 1 / *mean_time : 0;
}

// Parameters as the model holds them, the optimizer's state and what BatchNorm counts.
double state_bytes(const Point& point) {
  const double each = parameter_bytes(point.precision) +
                      optimizer_state_bytes(point.job.optimizer, point.precision);
  double bytes = static_cast<double>(point.parameters) * each;
  for (const Layer& layer : point.job.step->layers) bytes += layer.buffer_bytes;
  return bytes;
}

double samples_per_second(const StrategyResult& result) {
  return result.samples_per_step / mean(result.step_seconds);
}

// Links of nodes from `first` to `last`, which are not there; hosts of servers follow the others.
void leave_out(int first, int last, Stragglers& stragglers) {
  const auto is_missing = [&](int node) { return node >= first && node < last; };
  const auto moved = [&](int node) { return node >= last ? node - (last - first) : node; };
  std::erase_if(stragglers.slow_links, [&](const SlowLink& slow) { return is_missing(slow.node); });
  for (SlowLink& slow : stragglers.slow_links) slow.node = moved(slow.node);
  std::erase_if(stragglers.neighbours, [&](Neighbour& neighbour) {
    const bool of_all = neighbour.nodes.empty();
    std::erase_if(neighbour.nodes, is_missing);
    for (int& node : neighbour.nodes) node = moved(node);
    return !of_all && neighbour.nodes.empty();
  });
}

// Of samples per second with all nodes, what `nodes` of them do: batches per GPU stay what they are. 0
// where the strategy cannot be divided among so many (a shard group, backup workers).
double simulated_share(const Point& point, int nodes, const StrategyResult& of_all) {
  Job job = point.job;
  leave_out(nodes, nodes_of(job.mesh.gpus(), job.machine), job.stragglers);
  // A lost GPU takes its replica of the model with it.
  const int replica = job.mesh.gpus() / job.mesh.data;
  job.mesh.data = std::min(job.mesh.gpus(), nodes * job.machine.gpus_per_node) / replica;
  if (job.mesh.data == 0) return 0;
  job.simulation.engine = Engine::loop;  // beside other simulations of this process
  try {
    return samples_per_second(point.strategy->simulate(job)) / samples_per_second(of_all);
  } catch (const ConfigError&) {
    return 0;
  }
}

// Simulated with 1, 2, 4, ... nodes missing; between them on a straight line. Of nodes that the
// strategy cannot be divided among some stand idle; where it can train with none of them it is 0.
std::vector<double> elastic_speeds(const Point& point, int least, double all,
                                   const StrategyResult& of_all) {
  const int nodes = nodes_of(point.job.mesh.gpus(), point.job.machine);
  std::map<int, double> simulated;
  const auto speed_of = [&](int n) {
    for (; n > 0; --n) {
      const auto [known, is_new] = simulated.try_emplace(n);
      if (is_new) known->second = all * simulated_share(point, n, of_all);
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
  const bool loose = plan.independent_workers;
  const int nodes = loose ? plan.state_nodes : plan.nodes();
  const double rate =
      nodes * (plan.speeds.node + plan.speeds.link + (loose ? 0 : plan.speeds.workers)) +
      plan.servers * plan.speeds.server + plan.speeds.job;
  if (rate > 0) return 1 / rate;
  const double seconds = plan.steps / plan.steps_per_second.back();
  double given = 0;
  for (const ScheduledFailure& failure : plan.faults.at) {
    const std::optional<int> node = failure.link ? failure.link : failure.node;
    const bool stops = failure.worker ? !loose
                       : node         ? *node < nodes
                                      : !failure.leaves && !failure.joins;
    if (stops && failure.seconds < seconds) ++given;
  }
  return given > 0 ? seconds / given : std::numeric_limits<double>::infinity();
}

// When too few nodes are left for good, if ever.
std::optional<ScheduledFailure> end_of_nodes(const Faults& faults, int all, int needed) {
  std::set<int> lost;
  std::optional<ScheduledFailure> end;
  for (const ScheduledFailure& failure : in_time(faults.at)) {
    std::optional<int> gone = failure.leaves;
    if (!faults.repair_seconds && failure.node) gone = failure.node;
    if (gone && *gone < all) lost.insert(*gone);
    if (failure.joins) lost.erase(*failure.joins);
    const bool enough = all - static_cast<int>(lost.size()) >= needed;
    if (enough) end.reset();
    if (!enough && !end) end = failure;
  }
  return end;
}

}  // namespace

int hosts_of_servers(const Scenario& scenario) {
  int most = 0;
  for (const StrategyEntry& entry : scenario.strategies) {
    most = std::max(most, make_strategy(entry.options)->server_hosts());
  }
  return most;
}

bool goes_on_with_fewer(const Faults& faults, const Strategy& strategy) {
  const bool loose = strategy.outlives_workers();
  return faults.recovery.value_or(loose ? Recovery::elastic : Recovery::restart) ==
         Recovery::elastic;
}

void check_faults(const Scenario& scenario, const Machine& machine, Misfits& misfits) {
  if (!scenario.faults) return;
  const Faults& faults = *scenario.faults;
  const int workers = *std::max_element(scenario.gpus.begin(), scenario.gpus.end());
  const int most = nodes_of(workers, machine);
  const auto counted = [](int nodes) {
    return fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
  };
  if (faults.min_nodes > most) {
    misfits.add(faults.where, "faults.min_nodes",
                fmt::format("{} nodes, but the job has {}", faults.min_nodes, counted(most)));
  }
  if (most + faults.spare_nodes > machine.max_nodes) {
    misfits.add(faults.where, "faults.spare_nodes",
                fmt::format("{} beside {} in use, but {} has at most {}", faults.spare_nodes,
                            counted(most), machine.name, machine.max_nodes));
  }
  const int servers = hosts_of_servers(scenario);
  const int all = most + faults.spare_nodes;
  for (const ScheduledFailure& failure : faults.at) {
    if (failure.server && *failure.server >= servers) {
      misfits.add(failure.where, "faults.at.server",
                  fmt::format("there is no server {}", *failure.server),
                  servers == 0 ? "servers fail by themselves with `placement: own-hosts`"
                               : fmt::format("servers are 0 to {}", servers - 1));
    }
    if (failure.worker && *failure.worker >= workers) {
      misfits.add(failure.where, "faults.at.worker",
                  fmt::format("there is no worker {}", *failure.worker),
                  fmt::format("workers are 0 to {}", workers - 1));
    }
    const std::pair<const char*, std::optional<int>> named[] = {{"node", failure.node},
                                                                {"link", failure.link},
                                                                {"leaves", failure.leaves},
                                                                {"joins", failure.joins}};
    for (const auto& [field, node] : named) {
      if (!node || *node < all) continue;
      misfits.add(failure.where, fmt::format("faults.at.{}", field),
                  fmt::format("there is no node {}", *node),
                  fmt::format("nodes are 0 to {}, spare ones last", all - 1));
    }
  }
  for (const StrategyEntry& entry : scenario.strategies) {
    const bool elastic = goes_on_with_fewer(faults, *make_strategy(entry.options));
    for (const int count : scenario.gpus) {
      const int nodes = nodes_of(count, machine);
      const std::optional<ScheduledFailure> end = end_of_nodes(
          faults, nodes + faults.spare_nodes, elastic ? std::min(faults.min_nodes, nodes) : nodes);
      if (!end) continue;
      misfits.add(end->where, "faults.at",
                  fmt::format("leaves too few nodes for {} on {}", entry.label, counted(nodes)),
                  elastic ? "more spare_nodes, or `repair: 1 h`"
                          : "more spare_nodes, `repair: 1 h`, or `recovery: elastic`");
      return;
    }
  }
}

RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction) {
  const Faults& faults = *scenario.faults;
  const Checkpoints checkpoints = scenario.checkpoints.value_or(Checkpoints{});
  const Job& job = point.job;
  const int state_nodes = point.strategy->state_nodes(job);
  const int servers = point.strategy->server_hosts();
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  // Without failures the run takes as long as it was predicted to, its first step included.
  const double all = prediction.steps / prediction.total_seconds;
  const bool elastic = goes_on_with_fewer(faults, *point.strategy);

  LongRun plan;
  plan.faults = faults;
  // Other strategies have servers, and other GPU counts workers, that this job has not.
  std::erase_if(plan.faults.at, [&](const ScheduledFailure& failure) {
    return (failure.server && *failure.server >= servers) ||
           (failure.worker && *failure.worker >= job.mesh.gpus());
  });
  plan.steps = prediction.steps;
  plan.steps_per_second.assign(static_cast<std::size_t>(nodes) + 1, 0);
  plan.steps_per_second.back() = all;
  if (elastic) {
    plan.steps_per_second = elastic_speeds(point, std::min(faults.min_nodes, nodes), all, result);
  }
  plan.independent_workers = elastic && point.strategy->outlives_workers();
  plan.state_nodes = state_nodes;
  plan.servers = servers;
  plan.speeds.node = per_second(faults.between.node) +
                     static_cast<double>(job.mesh.gpus()) / nodes * per_second(faults.between.gpu);
  plan.workers_per_node = job.machine.gpus_per_node;
  plan.workers = job.mesh.gpus();
  plan.speeds.workers = plan.workers_of_a_node() * per_second(faults.between.worker);
  plan.speeds.link = per_second(faults.between.link);
  plan.speeds.server = per_second(faults.between.server);
  plan.speeds.job = per_second(faults.between.job);

  const double bytes = checkpoints.bytes.value_or(state_bytes(point));
  const double write = bytes / (state_nodes + servers) / checkpoints.bytes_per_second;
  plan.write_seconds = plan.read_seconds = write;
  const double period = checkpoints.every_seconds.value_or(
      best_checkpoint_period(write, seconds_between_stops(plan)));
  plan.steps_between_checkpoints =
      std::isinf(period) ? period : std::max(1.0, std::round(period * all));

  RunWithFailures run = play_all(plan, job.simulation.seed);
  run.checkpoint_bytes = bytes;
  run.checkpoint_seconds = write;
  if (!std::isinf(period)) {
    run.checkpoint_period_seconds = plan.steps_between_checkpoints / all;
  }
  if (prediction.out_of_memory) return run;  // what cannot run has no price
  const double paid =
      job.mesh.gpus() + faults.spare_nodes * job.machine.gpus_per_node - run.mean_gpus_away;
  run.dollars = run.finish_seconds / 3600 * paid * job.machine.price_per_gpu_hour;
  return run;
}

}  // namespace lockstep
