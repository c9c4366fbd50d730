// A worker: compute, push what is ready, wait for the weights, go on. Its couriers carry messages,
// those of one lane one after the other.
#include <algorithm>

#include "strategies/parameter_server/run.hpp"

namespace lockstep {

Program PsRun::worker(Worker& self) {
  const int messages = static_cast<int>(system_.messages.size());
  while (!done_) {
    begin_step(self);
    for (std::size_t gate = 0; gate < gates_.size(); ++gate) {
      if (self.missing_at[gate] > 0) {  // the host waits before it issues the layer
        co_await executor_.sleep_until(self.started + self.step.host);
        while (self.missing_at[gate] > 0) co_await self.arrived.rung();
      }
      go_on(self, gate);
    }
    for (int m = 0; m < messages;) {
      const int segment = message(m).segment;
      const double ready = self.step.ready[static_cast<std::size_t>(segment)];
      co_await executor_.sleep_until(self.started + self.delay + ready);
      while (const double lost = compute_lost(self)) co_await executor_.sleep_for(lost);
      for (; m < messages && message(m).segment == segment; ++m) push(self, m);
    }
    if (self.booked_until > executor_.now() + clock_precision) {
      co_await executor_.sleep_until(self.booked_until);
    }
    set_computing(self, false);
    while (self.missing > 0 && !system_.pull_overlap) co_await self.arrived.rung();
    finish_step(self);
  }
  executor_.stop();
}

// What the server's processor does of it counts on its core. Of a serial server's answer: only what
// the server waits for.
Program PsRun::carry(Lane* lane, Queued next) {
  if (lane && !lane->waiting.empty() && lane->waiting.top() < next) {
    lane->waiting.push(next);
    next = lane->take();
  }
  while (true) {
    const Parcel& parcel = next.parcel;
    const int id = route(parcel);
    const PsRoute& along = system_.routes[static_cast<std::size_t>(id)];
    count_transfer(parcel, +1);
    const double start = executor_.now();
    ServerDemand demand(core_of_server(message(parcel.message).server), along.cores, start);
    co_await executor_.sleep_for(along.latency);
    const PsFlow flowing = flow(parcel, id);
    co_await executor_.carry(routes_[static_cast<std::size_t>(id)],
                             (1 - flowing.held) * flowing.bytes, ranks_of(parcel.worker));
    while (const double missed = demand.missed(executor_.now())) {
      co_await executor_.sleep_for(missed);
    }
    if (watch_) {
      watch_->arrives(parcel.direction == Direction::pull, parcel.worker, parcel.message,
                      parcel.number, start, executor_.now());
    }
    const PsMessage& what = message(parcel.message);
    if (parcel.direction == Direction::push) {
      trace_.pushed_bytes += ranks_of(parcel.worker) * what.push_bytes;
    }
    if (!lane) co_return;
    count_transfer(parcel, -1);
    if (parcel.direction == Direction::push) {
      servers_[static_cast<std::size_t>(what.server)].inbox.post(parcel);
    } else {
      pulled(parcel);
    }
    if (lane->waiting.empty()) break;
    next = lane->take();
  }
  lane->has_courier = false;
}

// The rest of it: in buffers on the way when the server has sent it all.
Program PsRun::tail(Parcel parcel) {
  const int id = route(parcel);
  const double start = executor_.now();
  const PsFlow flowing = flow(parcel, id);
  co_await executor_.carry(routes_[static_cast<std::size_t>(id)], flowing.held * flowing.bytes,
                           ranks_of(parcel.worker));
  count_transfer(parcel, -1);
  if (watch_) watch_->drains(parcel.worker, parcel.message, parcel.number, start, executor_.now());
  pulled(parcel);
}

namespace {

// The device waits for its host, and then for input.
void stand_still(const PsSystem& system, PsStep& step, double from, double asked, double until) {
  if (!system.observer) return;
  if (asked > from) step.done.push_back({nullptr, WaitCause::host_bound, {}, 0, from, asked});
  step.done.push_back({nullptr, WaitCause::data_loading, {}, 0, asked, until});
}

}  // namespace

void walk(const PsSystem& system, int worker, int index, double start, std::size_t end,
          Loader& loader, PsStep& step) {
  double &host = step.host, &device = step.device;
  DeviceSlowdown slowness{1, system.workers[static_cast<std::size_t>(worker)].device};
  int drawn = -1;
  for (std::size_t s = step.ready.size(); s < end; ++s) {
    const PsSegment& segment = system.segments[s];
    if (segment.batch != drawn) {
      slowness.factor = system.factor(worker, index * system.batches + segment.batch);
      drawn = segment.batch;
    }
    if (segment.needs_input && (system.input_seconds > 0 || system.late_input)) {
      const double ready = loader.ready - start;
      const double idle_from = std::max(host, device);
      if (ready > idle_from) {
        step.parts.host_bound += idle_from - device;
        step.parts.data_loading += ready - idle_from;
        stand_still(system, step, device, idle_from, ready);
        device = ready;
      }
      host = std::max(host, ready);
      // Two micro-batches are prepared ahead: there is room for the one after the next as soon as
      // the one before was taken (prefetch_factor's default).
      loader.ready = std::max(loader.ready, loader.taken) + system.input_seconds;
      if (system.late_input) loader.ready += system.late_input(worker, loader.batches++);
      loader.taken = start + host;
    }
    if (segment.needs_input && system.input_copy_seconds > 0) {
      const double copy_from = std::max(host, device);
      step.parts.host_bound += copy_from - device;
      step.parts.data_loading += system.input_copy_seconds;
      stand_still(system, step, device, copy_from, copy_from + system.input_copy_seconds);
      device = copy_from + system.input_copy_seconds;
    }
    const QueuedWork& work = segment.work;
    const double factor = slowness.of(work);
    const double busy = factor * work.busy;
    const double done = std::max(device + busy, host + scaled_span(work, factor));
    step.parts.host_bound += std::max(0.0, done - device - busy);  // not a rounding's -1e-19
    busy_part(step.parts, segment.phase) += busy;
    if (system.observer) {
      step.done.push_back({&segment, WaitCause::host_bound, slowness, host, device, done});
    }
    host += work.host;
    device = done;
    step.ready.push_back(device);
  }
}

void PsRun::begin_step(Worker& self) {
  self.started = executor_.now();
  self.waited_before = self.sum.waiting;
  self.exposed_before = self.sum.exposed_communication;
  self.step.clear();
  self.dropped = 0;
  self.delay = 0;
  ++self.steps;
  const std::size_t all = system_.segments.size();
  walk(system_, self.id, self.steps - 1, self.started,
       gates_.empty() ? all : static_cast<std::size_t>(gates_.front()), self.loader, self.step);
  self.booked_until = self.started + self.step.device;
  set_computing(self, true);
}

// With the weights for a gate's layers, up to the next one. What the device waited for them was
// booked when the last of them arrived, which is now.
void PsRun::go_on(Worker& self, std::size_t gate) {
  PsStep& step = self.step;
  step.host = std::max(step.host, executor_.now() - self.started);
  if (self.booked_until - self.started > step.device) {
    step.gated += self.booked_until - self.started - step.device;
    step.device = self.booked_until - self.started;
  }
  const std::size_t end = gate + 1 < gates_.size() ? static_cast<std::size_t>(gates_[gate + 1])
                                                   : system_.segments.size();
  walk(system_, self.id, self.steps - 1, self.started, end, self.loader, step);
  self.booked_until = self.started + step.device;
}

void PsRun::finish_step(Worker& self) {
  book(self, executor_.now());
  if (watch_) {
    watch_->step(self.id, self.steps - 1, self.step.done, self.started, executor_.now());
  }
  const StepSplit& parts = self.step.parts;
  self.sum.data_loading += parts.data_loading;
  self.sum.forward += parts.forward;
  self.sum.backward += parts.backward;
  self.sum.optimizer += parts.optimizer;
  self.sum.copies += parts.copies;
  self.sum.host_bound += parts.host_bound;
  const double seconds = executor_.now() - self.started - (self.sum.waiting - self.waited_before);
  const double communication = self.sum.exposed_communication - self.exposed_before;
  change_rule(changes_.after_step(self.id, seconds, communication, executor_.now()));
  self.step.clear();
  self.started = executor_.now();
  const auto messages = static_cast<int>(std::max<std::size_t>(1, system_.messages.size()));
  completed_ += ranks_of(self.id) * (messages - self.dropped);
  const std::int64_t round = static_cast<std::int64_t>(ranks_) * messages;
  if (system_.progress) {
    system_.progress(static_cast<double>(completed_) / static_cast<double>(round) / system_.steps);
  }
  if (completed_ >= static_cast<std::int64_t>(trace_.step_ends.size() + 1) * round) mark();
}

const PsRun::Way& PsRun::way(const Parcel& parcel) const {
  const int place = message(parcel.message).place;
  return ways_[static_cast<std::size_t>(parcel.worker * system_.places + place)];
}

int PsRun::route(const Parcel& parcel) const {
  return parcel.direction == Direction::push ? way(parcel).push : way(parcel).pull;
}

PsRun::Lane& PsRun::lane_of(const Parcel& parcel) {
  const PsMessage& what = message(parcel.message);
  const int number = way(parcel).one_lane ? what.place : system_.places + what.server;
  const std::size_t back = parcel.direction == Direction::pull ? 1 : 0;
  return worker_of(parcel.worker).lanes[static_cast<std::size_t>(2 * number) + back];
}

void PsRun::push(Worker& self, int m) {
  ++self.missing;
  if (!gates_.empty()) ++self.missing_at[gate_of(m)];
  send({.direction = Direction::push, .worker = self.id, .message = m});
}

// When it is its turn in its lane, or when a serial server takes it up.
void PsRun::send(Parcel parcel) {
  if (watch_) parcel.number = watch_->leaves(parcel.direction == Direction::pull, parcel.message);
  const PsMessage& what = message(parcel.message);
  if (system_.serial_servers) {
    Inbox<Parcel>& inbox = servers_[static_cast<std::size_t>(what.server)].inbox;
    // A server that answers each push at once does so before it takes the next one.
    if (parcel.direction == Direction::pull &&
        shared_[static_cast<std::size_t>(parcel.message)].rule->pushes_per_update(parcel.worker) ==
            1) {
      inbox.post_first(parcel);
    } else {
      inbox.post(parcel);
    }
    return;
  }
  Lane& lane = lane_of(parcel);
  const Queued queued{system_.priorities ? what.priority : 0, queued_++, parcel};
  if (lane.has_courier) {
    lane.waiting.push(queued);
  } else {
    lane.has_courier = true;
    executor_.start("courier", carry(&lane, queued));
  }
}

// Only a serial server goes on before its answer has arrived; of a push it waits for all.
PsFlow PsRun::flow(const Parcel& parcel, int route) const {
  const PsMessage& what = message(parcel.message);
  const bool push = parcel.direction == Direction::push;
  const double bytes = push ? what.push_bytes : what.pull_bytes;
  if (!system_.flow) return {bytes, 0};
  const int core = system_.workers[static_cast<std::size_t>(parcel.worker)].core;
  const auto server = static_cast<std::size_t>(what.server);
  const bool one_core =
      core >= 0 && server < system_.server_core.size() && system_.server_core[server] == core;
  PsFlow result = system_.flow(route, bytes, one_core);
  if (push || !system_.serial_servers) result.held = 0;
  return result;
}

void PsRun::pulled(const Parcel& parcel) {
  Worker& self = worker_of(parcel.worker);
  trace_.pulled_bytes += ranks_of(parcel.worker) * message(parcel.message).pull_bytes;
  bool all = --self.missing == 0;
  if (!gates_.empty()) all = --self.missing_at[gate_of(parcel.message)] == 0;
  if (all) self.arrived.ring();
}

void PsRun::count_transfer(const Parcel& parcel, int change) {
  Worker& self = worker_of(parcel.worker);
  book(self, executor_.now());
  self.transfers[parcel.direction == Direction::push ? 0 : 1].change(change, executor_.now());
}

// Time after compute: exposed communication while an own transfer runs, waiting otherwise.
void PsRun::book(Worker& self, double until) {
  if (until <= self.booked_until) return;
  const bool transferring = self.transfers[0].running + self.transfers[1].running > 0;
  (transferring ? self.sum.exposed_communication : self.sum.waiting) += until - self.booked_until;
  if (watch_) {
    watch_->waits(self.id, transferring ? WaitCause::communication : WaitCause::waiting,
                  self.booked_until, until);
  }
  self.booked_until = until;
}

}  // namespace lockstep
