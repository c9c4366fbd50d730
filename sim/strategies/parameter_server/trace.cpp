// What a parameter-server run reports: the time of every W worker steps, where it went, staleness.
// Everything but the first step is measured between two snapshots, so that the parts add up
// exactly.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "strategies/common/run_steps.hpp"
#include "strategies/parameter_server/run.hpp"

namespace lockstep {

namespace {

constexpr std::size_t kRepeats = agreeing_steps;

}  // namespace

PsRun::PsRun(const PsSystem& system, Executor& executor)
    : system_(system),
      executor_(executor),
      over_(executor),
      sending_(system.neighbours.size(), false),
      changes_(system) {
  if (system.observer) watch_ = std::make_unique<PsWatch>(*system.observer, system);
  if (system.pull_overlap) {
    for (const PsMessage& m : system.messages) gates_.push_back(m.needed_by);
    std::sort(gates_.begin(), gates_.end());
    gates_.erase(std::unique(gates_.begin(), gates_.end()), gates_.end());
    for (const PsMessage& m : system.messages) {
      const auto gate = std::lower_bound(gates_.begin(), gates_.end(), m.needed_by);
      gate_of_.push_back(static_cast<std::size_t>(gate - gates_.begin()));
    }
  }
  for (const PsMessage& m : system.messages) {
    if (m.server >= system.servers || m.place >= system.places) {
      throw std::logic_error("a message to a server that is not there");
    }
  }
  for (const double capacity : system.links) executor.add_link(capacity);
  for (const PsRoute& r : system.routes) routes_.push_back(executor.add_route({r.links, r.cap}));
  for (std::size_t w = 0; w < system.workers.size(); ++w) {
    const PsWorker& worker = system.workers[w];
    workers_.push_back(std::make_unique<Worker>(executor, static_cast<int>(w)));
    workers_.back()->missing_at.assign(gates_.size(), 0);
    if (!system.serial_servers) {
      workers_.back()->lanes.resize(static_cast<std::size_t>(2 * (system.places + system.servers)));
    }
    worker_ranks_.push_back(worker.ranks);
    ranks_ += worker.ranks;
    for (std::size_t place = 0; place < static_cast<std::size_t>(system.places); ++place) {
      ways_.push_back({worker.push.at(place), worker.pull.at(place), worker.one_lane.at(place)});
    }
  }
  for (int s = 0; s < system.servers; ++s) servers_.emplace_back(executor, s);
  shared_.resize(system.messages.size());
  for (Shared& s : shared_) {
    s.rule = system.rule(static_cast<int>(workers_.size()));
    s.settled.assign(workers_.size(), 0);
    s.seen.assign(workers_.size(), 0);
  }
  cores_.resize(static_cast<std::size_t>(system.shared_cores));
  base_.steps.assign(workers_.size(), 0);
  base_.workers.resize(workers_.size());
  base_.link_bytes.assign(system.links.size(), 0);
  base_.link_busy.assign(system.links.size(), 0);
  base_.server_busy.assign(servers_.size(), 0);
  base_.push_busy.assign(workers_.size(), 0);
  base_.pull_busy.assign(workers_.size(), 0);
}

Program PsRun::slow_down(const PsSlowing& slowing) {
  co_await executor_.sleep_until(slowing.from);
  for (const int link : slowing.links) {
    executor_.set_capacity(link, system_.capacity(link, executor_.now(), sending_));
  }
}

PsTrace PsRun::run() {
  for (const auto& each : workers_) executor_.start("worker", worker(*each));
  for (Server& each : servers_) executor_.start("server", server(each));
  for (std::size_t n = 0; n < system_.neighbours.size(); ++n) {
    const auto change = [this, n](bool on) {
      sending_[n] = on;
      for (const int link : system_.neighbours[n].links) {
        executor_.set_capacity(link, system_.capacity(link, executor_.now(), sending_));
      }
    };
    executor_.start("neighbour", play_bursts(over_, system_.neighbours[n].bursts, change));
  }
  for (const PsSlowing& slowing : system_.slowings) {
    executor_.start("slow link", slow_down(slowing));
  }
  executor_.run();
  return trace();
}

PsRun::Snapshot PsRun::snapshot() {
  Snapshot s;
  const double now = executor_.now();
  s.time = now;
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& self = *workers_[w];
    book(self, now);
    s.steps.push_back(self.steps);
    const double ranks = worker_ranks_[w];
    StepSplit own = self.sum;
    const double elapsed = now - self.started - self.step.gated;
    const double known = self.step.device - self.step.gated;
    if (elapsed > 0 && known > 0) {  // of a step that is under way
      add(own, self.step.parts, std::min(1.0, elapsed / known));
    }
    add(s.sum, own, ranks);
    s.workers.push_back(own);
  }
  for (const auto& self : workers_) {
    s.push_busy.push_back(self->transfers[0].until(now));
    s.pull_busy.push_back(self->transfers[1].until(now));
  }
  for (std::size_t link = 0; link < system_.links.size(); ++link) {
    const Executor::Traffic traffic = executor_.traffic(static_cast<LinkId>(link));
    s.link_bytes.push_back(traffic.bytes);
    s.link_busy.push_back(traffic.busy_seconds);
  }
  for (const Server& server : servers_) s.server_busy.push_back(server.busy.until(now));
  return s;
}

// `ranks` more worker steps are complete.
void PsRun::mark() {
  trace_.step_ends.push_back(executor_.now());
  const int steps = static_cast<int>(trace_.step_ends.size());
  if (system_.steady) {
    latest_.push_back(snapshot());
    if (latest_.size() > kRepeats + 1) latest_.pop_front();
  }
  trace_.extrapolated = system_.steady && steps < system_.steps && repeats();
  done_ = steps >= system_.steps || trace_.extrapolated;
  if (steps == 1 && !done_) {
    base_ = snapshot();
    staleness_.clear();
    pushes_ = dropped_ = 0;
  }
  change_rule(changes_.after(steps));
  if (trace_.extrapolated) {  // what led to the steady state is no part of it
    base_ = latest_.front();
    trace_.reported = kRepeats;
  } else {
    trace_.reported = trace_.step_ends.size() - 1;
  }
}

bool PsRun::repeats() const {
  const std::vector<double>& ends = trace_.step_ends;
  if (ends.size() < kRepeats + 1) return false;
  const std::size_t last = ends.size() - 1;
  const double step = ends[last] - ends[last - 1];
  for (std::size_t k = 1; k < kRepeats; ++k) {
    const double earlier = ends[last - k] - ends[last - k - 1];
    if (std::abs(earlier - step) > agreement * step) return false;
  }
  for (const auto part : step_parts) {
    const auto seconds = [&](std::size_t k) {
      return (latest_[k].sum.*part - latest_[k - 1].sum.*part) / ranks_;
    };
    for (std::size_t k = 1; k < kRepeats; ++k) {
      if (std::abs(seconds(k) - seconds(kRepeats)) > agreement * step) return false;
    }
  }
  // Workers may still live on the lead that their loader has from a long first step.
  double loading = 0;
  for (const PsSegment& segment : system_.segments) {
    if (segment.needs_input) loading += system_.input_seconds;
  }
  return loading <= step * (1 + agreement);
}

PsTrace PsRun::trace() {
  const Snapshot end = snapshot();
  const double time = std::max(end.time - base_.time, std::numeric_limits<double>::min());
  const double steps = std::max<double>(1, static_cast<double>(trace_.reported));
  add(trace_.split, end.sum, 1 / (steps * ranks_));
  add(trace_.split, base_.sum, -1 / (steps * ranks_));
  for (std::size_t w = 0; w < end.workers.size(); ++w) {
    const auto per_step = [&](double StepSplit::*part) {
      return (end.workers[w].*part - base_.workers[w].*part) / steps;
    };
    RankTimes times;
    times.steps = static_cast<double>(end.steps[w] - base_.steps[w]) / steps;
    times.communicating = per_step(&StepSplit::exposed_communication);
    times.waiting = per_step(&StepSplit::waiting);
    times.own = time / steps - times.communicating - times.waiting;
    trace_.workers.push_back(times);
  }
  for (std::size_t i = 0; i < staleness_.size(); ++i) {
    if (staleness_[i] > 0) trace_.staleness[static_cast<std::int64_t>(i)] = staleness_[i];
  }
  for (std::size_t w = 0; w < end.steps.size(); ++w) {
    trace_.worker_steps[end.steps[w] - base_.steps[w]] += worker_ranks_[w];
  }
  for (std::size_t link = 0; link < system_.links.size(); ++link) {
    trace_.link_bytes.push_back((end.link_bytes[link] - base_.link_bytes[link]) / steps);
    trace_.link_busy.push_back((end.link_busy[link] - base_.link_busy[link]) / time);
  }
  const auto busiest = [time](const std::vector<double>& to, const std::vector<double>& from) {
    double most = 0;
    for (std::size_t i = 0; i < to.size(); ++i) most = std::max(most, to[i] - from[i]);
    return most / time;
  };
  if (pushes_ > 0) trace_.dropped = static_cast<double>(dropped_) / static_cast<double>(pushes_);
  trace_.stretches = changes_.stretches();
  if (end.time > 0) trace_.asynchronous_share = changes_.asynchronous_seconds(end.time) / end.time;
  trace_.push_busy = busiest(end.push_busy, base_.push_busy);
  trace_.pull_busy = busiest(end.pull_busy, base_.pull_busy);
  trace_.server_busy = busiest(end.server_busy, base_.server_busy);
  return std::move(trace_);
}

PsTrace run_parameter_server(const PsSystem& system, std::unique_ptr<Executor> executor) {
  return PsRun(system, *executor).run();
}

}  // namespace lockstep
