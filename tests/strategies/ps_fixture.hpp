// Small hand-made parameter-server systems: W equal workers and S servers, each server behind one
// shared link. Used by tests of the parameter server.
#pragma once

#include <cmath>

#include "core/random.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep::testing {

struct ToySystem {
  int workers = 4;
  int servers = 1;
  double forward = 0.010, backward = 0.020;     // seconds
  double bytes = 100e6;                         // of the whole model
  double bandwidth = 10e9;                      // of a server's link, each way
  double keep = 0, accumulate = 0, update = 0;  // server seconds for a push
  double latency = 0;
  double sigma = 0;  // lognormal jitter of every step
  std::uint64_t seed = 1;
  int steps = 20;
  PsRule rule = bulk_synchronous(4);
};

inline PsSystem make_system(const ToySystem& toy) {
  PsSystem system;
  system.servers = system.places = toy.servers;
  system.segments.push_back({Phase::forward, {0, toy.forward, toy.forward}, true});
  system.segments.push_back({Phase::backward, {0, toy.backward, toy.backward}, false});
  for (int server = 0; server < toy.servers; ++server) {
    PsMessage message;
    message.server = message.place = server;
    message.segment = 1;
    message.push_bytes = message.pull_bytes = toy.bytes / toy.servers;
    message.keep_seconds = toy.keep;
    message.accumulate_seconds = toy.accumulate;
    message.update_seconds = toy.update;
    system.messages.push_back(message);
    system.links.push_back(toy.bandwidth);
    system.links.push_back(toy.bandwidth);
    for (const int direction : {0, 1}) {
      PsRoute route;
      route.links = {2 * server + direction};
      route.latency = toy.latency;
      system.routes.push_back(route);
    }
  }
  for (int w = 0; w < toy.workers; ++w) {
    PsWorker worker;
    for (int server = 0; server < toy.servers; ++server) {
      worker.ways.push_back({2 * server, 2 * server + 1, true});
    }
    system.workers.push_back(worker);
  }
  system.rule = toy.rule;
  system.steps = toy.steps;
  const double sigma = toy.sigma;
  const std::uint64_t seed = toy.seed;
  system.factor = [sigma, seed](int worker, int step) {
    if (sigma == 0) return 1.0;
    return lognormal_draw({.seed = seed,
                           .rank = static_cast<std::uint32_t>(worker),
                           .step = static_cast<std::uint32_t>(step),
                           .event = 0},
                          sigma);
  };
  return system;
}

// One worker over 10 GB/s with two layers of 10 ms forward. Backward takes 20 ms in the back layer
// and 25 ms in the front layer. The back layer pushes `parts` messages of 100 MB and the front
// layer one; a message takes 10 ms each way.
inline PsSystem two_layers(int parts) {
  ToySystem toy;
  toy.workers = 1;
  toy.rule = stale_synchronous(0);
  PsSystem system = make_system(toy);
  system.segments = {{Phase::forward, {0, 0.010, 0.010}, true},
                     {Phase::forward, {0, 0.010, 0.010}},
                     {Phase::backward, {0, 0.020, 0.020}},
                     {Phase::backward, {0, 0.025, 0.025}}};
  PsMessage back = system.messages.front(), front = back;
  back.segment = 2;
  back.needed_by = 1;
  back.layer = 1;
  front.segment = 3;
  front.needed_by = 0;
  system.messages.assign(static_cast<std::size_t>(parts), back);
  system.messages.push_back(front);
  system.pull_overlap = true;
  return system;
}

inline std::vector<double> step_times(const PsTrace& trace) {
  std::vector<double> times;
  for (std::size_t i = 1; i < trace.step_ends.size(); ++i) {
    times.push_back(trace.step_ends[i] - trace.step_ends[i - 1]);
  }
  return times;
}

inline double mean_step(const PsTrace& trace) {
  return (trace.step_ends.back() - trace.step_ends.front()) /
         static_cast<double>(trace.step_ends.size() - 1);
}

inline double total(const StepSplit& split) {
  return split.data_loading + split.forward + split.backward + split.optimizer + split.copies +
         split.exposed_communication + split.host_bound + split.waiting;
}

inline double mean_staleness(const PsTrace& trace) {
  double sum = 0, count = 0;
  for (const auto& [staleness, updates] : trace.staleness) {
    sum += static_cast<double>(staleness) * static_cast<double>(updates);
    count += static_cast<double>(updates);
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace lockstep::testing
