// Checks the failures of a scenario, and fills the plan of a point's long run: speeds by number of
// nodes, failure rates, checkpoint costs. The speeds with fewer nodes come from further simulations
// of the step; faults/long_run.cpp simulates the events of the run.
#include "points/faults.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "faults/long_run.hpp"
#include "points/checkpoints.hpp"

namespace lockstep {

namespace {

// The failure rate for a mean time between failures; 0 if there is no such time.
double per_second(const std::optional<double>& mean_time) {
  return mean_time ? 1 / *mean_time : 0;
}

// Adapts stragglers to a job in which nodes `first` to `last` - 1 are missing: removes their slow
// links and neighbours, and renumbers the hosts of servers, which follow the workers' nodes.
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

// Samples per second with `nodes` nodes, relative to all nodes (`of_all`); the batch per GPU stays
// the same. 0 if the strategy cannot run on so few nodes (shard groups, backup workers).
double simulated_share(const Point& point, int nodes, const StrategyResult& of_all) {
  Job job = point.job;
  leave_out(nodes, nodes_of(job.mesh.gpus(), job.machine), job.stragglers);
  // The loss of one GPU loses its whole replica of the model.
  const int replica = job.mesh.gpus() / job.mesh.data;
  job.mesh.data = std::min(job.mesh.gpus(), nodes * job.machine.gpus_per_node) / replica;
  if (job.mesh.data == 0) return 0;
  try {
    return share_of_speed(point, std::move(job), of_all);
  } catch (const ConfigError&) {
    return 0;
  }
}

// Steps per second by number of nodes, for `least` nodes and more; `all` is the speed of all nodes.
// Simulates with 1, 2, 4, ... units of `unit` nodes missing, and interpolates linearly between
// them:
//
//     missing nodes   0    1    2    3    4   ...   8
//     simulated       x    x    x         x         x
//
// If the strategy cannot be divided among n nodes, some nodes are idle: the speed is that of
// the largest smaller number that works, and 0 if there is none.
std::vector<double> elastic_speeds(const Point& point, int least, int unit, double all,
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
  // Raise `least` to the smallest number of nodes that can train at all.
  while (least < nodes && speed_of(least) <= 0) ++least;
  int above = nodes;
  for (int missing = unit; above > least; missing *= 2) {
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

// Mean seconds between two failures that stop the job, from which the checkpoint period follows.
// The rates of all units whose failure stops the job are added. If no rates are given, counts the
// scheduled failures.
double seconds_between_stops(const LongRun& plan) {
  const bool loose = plan.independent_workers;
  // Number of nodes whose failure stops the job. If workers are independent: the nodes with state.
  // If a lost replica comes back while the others continue: none. Otherwise: all.
  const int nodes = loose ? plan.state_nodes : plan.replica_nodes > 0 ? 0 : plan.nodes();
  const double rate =
      nodes * (plan.speeds.node + plan.speeds.link + (loose ? 0 : plan.speeds.workers)) +
      plan.servers * plan.speeds.server + plan.speeds.job;
  if (rate > 0) return 1 / rate;
  const double seconds = plan.steps / plan.steps_per_second.back();
  double given = 0;
  for (const ScheduledFailure& failure : plan.faults.at) {
    const std::optional<int> node = failure.link ? failure.link : failure.node;
    const bool stops = failure.worker ? !plan.nodes_come_back_alone()
                       : node         ? *node < nodes
                                      : !failure.leaves && !failure.joins && !failure.slows;
    if (stops && failure.seconds < seconds) ++given;
  }
  return given > 0 ? seconds / given : std::numeric_limits<double>::infinity();
}

// Speed with one node whose GPUs take `factor` times longer, relative to the normal speed. The
// first node is slowed.
double speed_with_slow_node(const Point& point, double factor, const StrategyResult& of_all) {
  Job job = point.job;
  const int ranks = std::min(job.machine.gpus_per_node, job.mesh.gpus());
  for (int rank = 0; rank < ranks; ++rank) job.stragglers.slow_ranks.push_back({rank, factor});
  return std::min(1.0, share_of_speed(point, std::move(job), of_all));
}

// The scheduled failure after which fewer than `needed` of `all` nodes are left, if no later entry
// of the list brings enough nodes back; nothing if enough nodes are left. Failed nodes return only
// if `repair` is given.
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
  return faults.recovery.value_or(loose ? Recovery::elastic : Recovery::restart) !=
         Recovery::restart;
}

int nodes_that_fail_together(const Point& point) {
  const Job& job = point.job;
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  const int stages = job.mesh.pipeline;
  const int of_a_stage = point.strategy->state_ranks(job) / stages;
  const int together = stages * nodes_of(of_a_stage, job.machine);
  return nodes % together == 0 && nodes > together ? together : 0;
}

void check_recovery(const Scenario& scenario, const Point& point, Misfits& misfits) {
  if (!scenario.faults) return;
  const Faults& faults = *scenario.faults;
  const auto at = fmt::format("{} on {} GPUs", point.label, point.job.mesh.gpus());
  const bool has_servers = point.strategy->servers() > 0;
  if (faults.recovery == Recovery::replicas && has_servers) {
    misfits.add(faults.where, "faults.recovery", "replicas: " + at + " keeps its state in servers",
                "its workers come back alone with `recovery: elastic`");
  }
  const PeerCopies* peers =
      scenario.checkpoints && scenario.checkpoints->peers ? &*scenario.checkpoints->peers : nullptr;
  const Location& where = peers ? scenario.checkpoints->where : faults.where;
  if (peers && has_servers) {
    misfits.add(where, "checkpoint.peers", at + " keeps its state in servers", "leave `peers` out");
  }
  if (has_servers) return;
  try {
    const int nodes = nodes_of(point.job.mesh.gpus(), point.job.machine);
    const int with_state = point.strategy->state_nodes(point.job);
    if (faults.recovery == Recovery::replicas && nodes_that_fail_together(point) == 0) {
      misfits.add(faults.where, "faults.recovery",
                  fmt::format("replicas: {} is not several replicas of whole nodes", at),
                  "more nodes, smaller shard groups (`shard_group`), or `recovery: restart`");
    }
    if (peers && with_state != nodes) {
      misfits.add(where, "checkpoint.peers",
                  fmt::format("{} keeps its state in {} of {} nodes, and the others have it, too",
                              at, with_state, nodes),
                  "`faults: {recovery: replicas}` restores it from the other replicas");
    } else if (peers && peers->copies > nodes) {
      misfits.add(where, "checkpoint.peers.copies",
                  fmt::format("{} copies, but {} has {} nodes", peers->copies, at, nodes));
    }
  } catch (const ConfigError&) {
    return;  // the simulation reports the misfit
  }
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
                                                                {"slows", failure.slows},
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

// Fills the plan of the run in three steps: nodes and how often each unit fails; speeds with fewer
// or slower nodes; checkpoints. Then simulates the plan and adds the values that only this function
// knows, such as the price.
RunWithFailures run_with_failures(const Scenario& scenario, const Point& point,
                                  const StrategyResult& result, const Prediction& prediction) {
  const Faults& faults = *scenario.faults;
  const Checkpoints checkpoints = scenario.checkpoints.value_or(Checkpoints{});
  const Job& job = point.job;
  const int state_nodes = point.strategy->state_nodes(job);
  const int servers = point.strategy->server_hosts();
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  // Without failures, the run must take exactly the predicted time, including the slower first
  // step.
  const double all = prediction.steps / prediction.total_seconds;
  const bool elastic = goes_on_with_fewer(faults, *point.strategy);

  LongRun plan;
  plan.faults = faults;
  // All points share the scenario's failures: drop failures of parts that this job lacks.
  std::erase_if(plan.faults.at, [&](const ScheduledFailure& failure) {
    return (failure.server && *failure.server >= servers) ||
           (failure.worker && *failure.worker >= job.mesh.gpus());
  });
  plan.steps = prediction.steps;
  plan.steps_per_second.assign(static_cast<std::size_t>(nodes) + 1, 0);
  plan.steps_per_second.back() = all;
  if (faults.recovery == Recovery::replicas) plan.replica_nodes = nodes_that_fail_together(point);
  if (elastic) {
    const int unit = std::max(1, plan.replica_nodes);
    const int least = (std::min(faults.min_nodes, nodes) + unit - 1) / unit * unit;
    plan.steps_per_second = elastic_speeds(point, least, unit, all, result);
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
  if (faults.degraded) {
    plan.speeds.slows = per_second(faults.degraded->mean_seconds);
    plan.speed_with_slow_node = speed_with_slow_node(point, faults.degraded->factor, result);
  }

  // Checkpoints: their costs, and the best period (Daly's formula) unless the scenario gives one. A
  // staged write must end before the next one starts.
  const CheckpointCosts costs = checkpoint_costs(checkpoints, point);
  const bool staged = checkpoints.write == CheckpointWrite::staged;
  plan.write_seconds = plan.read_seconds = costs.write_seconds;
  plan.catch_up_seconds = costs.fetch_seconds;
  if (checkpoints.peers) plan.memory = memory_copies(*checkpoints.peers, costs, result, all);
  if (staged) plan.copy_seconds = costs.copy_seconds;
  const double stall = plan.copy_seconds.value_or(costs.write_seconds);
  const double best = std::max(best_checkpoint_period(stall, seconds_between_stops(plan)),
                               staged ? costs.write_seconds : 0);
  const double period = checkpoints.every_seconds.value_or(best);
  plan.steps_between_checkpoints =
      std::isinf(period) ? period : std::max(1.0, std::round(period * all));
  if (staged && !std::isinf(period))
    plan.speed_while_writing = speed_while_writing(checkpoints, point, result);

  RunWithFailures run = play_all(plan, job.simulation.seed);
  run.checkpoint_bytes = costs.bytes;
  run.checkpoint_seconds = costs.write_seconds;
  run.checkpoint_stall_seconds = stall;
  if (checkpoints.peers) {
    run.memory_copy_seconds = plan.memory.seconds;
    run.memory_period_seconds = plan.memory.steps_between / all;
  }
  if (!std::isinf(period)) {
    run.checkpoint_period_seconds = plan.steps_between_checkpoints / all;
  }
  if (prediction.out_of_memory) return run;  // a job that cannot run has no price
  // The user pays for spare nodes but not for nodes that have left.
  const double paid =
      job.mesh.gpus() + faults.spare_nodes * job.machine.gpus_per_node - run.mean_gpus_away;
  run.dollars = run.finish_seconds / 3600 * paid * job.machine.price_per_gpu_hour;
  return run;
}

}  // namespace lockstep
