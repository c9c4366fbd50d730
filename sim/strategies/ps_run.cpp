// Workers and transfers of the parameter server: compute, push when gradients are ready, wait for
// the pulls, go on. One event heap for everything that takes a known time, the fluid network for
// the rest.
#include "strategies/ps_run.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace lockstep {

PsRule consistency_rule(const ParameterServerOptions& options, int workers) {
  switch (options.consistency) {
    case Consistency::sync:
      return {workers, 0};
    case Consistency::async:
      return {1, PsRule::kUnbounded};
    case Consistency::ssp:
      // Bound 0 is bulk-synchronous (fact 83): the server can then wait for all gradients as well.
      return options.staleness_bound == 0 ? PsRule{workers, 0} : PsRule{1, options.staleness_bound};
  }
  return {};
}

void walk_step(const PsSystem& system, double factor, double start, Loader& loader, PsStep& step) {
  step.parts = {};
  step.ready.clear();
  double host = 0, device = 0;
  for (const PsSegment& segment : system.segments) {
    if (segment.needs_input && system.input_seconds > 0) {
      const double ready = loader.ready - start;
      const double idle_from = std::max(host, device);
      if (ready > idle_from) {
        step.parts.host_bound += idle_from - device;
        step.parts.data_loading += ready - idle_from;
        device = ready;
      }
      host = std::max(host, ready);
      // Two micro-batches are prepared ahead: there is room for the one after the next as soon as
      // the one before was taken (prefetch_factor's default).
      loader.ready = std::max(loader.ready, loader.taken) + system.input_seconds;
      loader.taken = start + host;
    }
    if (segment.needs_input && system.input_copy_seconds > 0) {
      const double copy_from = std::max(host, device);
      step.parts.host_bound += copy_from - device;
      step.parts.data_loading += system.input_copy_seconds;
      device = copy_from + system.input_copy_seconds;
    }
    const QueuedWork& work = segment.work;
    const double busy = factor * work.busy;
    const double end = std::max(device + busy, host + scaled_span(work, factor));
    step.parts.host_bound += std::max(0.0, end - device - busy);  // not a rounding's -1e-19
    busy_part(step.parts, segment.phase) += busy;
    host += work.host;
    device = end;
    step.ready.push_back(device);
  }
  step.seconds = device;
}

PsRun::PsRun(const PsSystem& system) : system_(system) {
  for (const double capacity : system.links) network_.add_link(capacity);
  for (const PsRoute& r : system.routes) network_.add_route(r.links, r.cap);
  workers_.resize(system.workers.size());
  servers_.resize(static_cast<std::size_t>(system.servers));
  const std::size_t lanes = static_cast<std::size_t>(system.places + system.servers);
  for (Worker& w : workers_) w.lanes.resize(2 * lanes);
  shared_.resize(system.messages.size());
  for (Shared& s : shared_) {
    s.clock.assign(workers_.size(), 0);
    s.seen.assign(workers_.size(), 0);
    s.workers_at.assign(1, static_cast<int>(workers_.size()));
  }
  cores_.resize(static_cast<std::size_t>(system.shared_cores));
  if (system.shared_cores > 0) {
    computed_before_.resize(2 * workers_.size() * system.messages.size());
  }
  for (const PsWorker& w : system.workers) ranks_ += w.ranks;
  base_.steps.assign(workers_.size(), 0);
  base_.link_bytes.assign(system.links.size(), 0);
  base_.link_busy.assign(system.links.size(), 0);
  base_.server_busy.assign(servers_.size(), 0);
  base_.push_busy.assign(workers_.size(), 0);
  base_.pull_busy.assign(workers_.size(), 0);
}

PsTrace PsRun::run() {
  for (int w = 0; w < static_cast<int>(workers_.size()); ++w) begin_step(w);
  while (!done_) {
    const double next_transfer = network_.next_completion();
    if (!events_.empty() && events_.top().time <= next_transfer) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      switch (event.kind) {
        case Kind::gradients_ready:
          if (!compute_postponed(event)) gradients_ready(event.worker, event.message);
          break;
        case Kind::transfer_start:
          flow({event.direction, event.worker, event.message});
          break;
        case Kind::transfer_end:
          transferred(event.direction, event.worker, event.message);
          break;
        case Kind::service_end:
          if (!service_postponed(event)) served(event.worker);
          break;
        case Kind::step_end:
          if (!compute_postponed(event)) finish_step(event.worker);
          break;
      }
    } else {
      if (next_transfer == std::numeric_limits<double>::infinity()) {
        throw std::logic_error("parameter server: everybody waits for somebody");
      }
      now_ = next_transfer;
      const Flow flow = flow_of(network_.complete_next());
      if (flow.tail) {
        pulled(flow.worker, flow.message);
      } else {
        transferred(flow.direction, flow.worker, flow.message);
      }
    }
  }
  return trace();
}

void PsRun::schedule(double time, Kind kind, Direction direction, int w, int m) {
  events_.push({time, scheduled_++, kind, direction, w, m});
}

void PsRun::begin_step(int w) {
  Worker& self = worker(w);
  walk_step(system_, system_.factor(w, self.steps), now_, self.loader, self.step);
  self.started = now_;
  self.booked_until = now_ + self.step.seconds;
  self.missing = static_cast<int>(system_.messages.size());
  ++self.steps;
  self.delay = 0;
  set_computing(w, true);
  if (system_.messages.empty()) {
    schedule(self.booked_until, Kind::step_end, Direction::push, w, 0);
  } else {
    const double ready = self.step.ready[static_cast<std::size_t>(message(0).segment)];
    schedule(now_ + ready, Kind::gradients_ready, Direction::push, w, 0);
  }
}

// Pushes message m and whatever became ready at the same moment.
void PsRun::gradients_ready(int w, int m) {
  const int messages = static_cast<int>(system_.messages.size());
  const int segment = message(m).segment;
  for (; m < messages && message(m).segment == segment; ++m) request(Direction::push, w, m);
  if (m < messages) {
    const Worker& self = worker(w);
    const double ready = self.step.ready[static_cast<std::size_t>(message(m).segment)];
    schedule(self.started + self.delay + ready, Kind::gradients_ready, Direction::push, w, m);
  } else {
    set_computing(w, false);
  }
}

void PsRun::finish_step(int w) {
  Worker& self = worker(w);
  book(self, now_);
  const StepSplit& parts = self.step.parts;
  self.sum.data_loading += parts.data_loading;
  self.sum.forward += parts.forward;
  self.sum.backward += parts.backward;
  self.sum.optimizer += parts.optimizer;
  self.sum.copies += parts.copies;
  self.sum.host_bound += parts.host_bound;
  self.step.seconds = 0;
  self.step.parts = {};
  self.started = now_;
  completed_ += system_.workers[static_cast<std::size_t>(w)].ranks;
  if (system_.progress) {
    system_.progress(static_cast<double>(completed_) / ranks_ / system_.steps);
  }
  if (completed_ >= static_cast<std::int64_t>(trace_.step_ends.size() + 1) * ranks_) mark();
  if (!done_) begin_step(w);
}

PsRun::Lane& PsRun::lane(Direction direction, int w, int m) {
  const PsMessage& what = message(m);
  const bool one =
      system_.workers[static_cast<std::size_t>(w)].one_lane[static_cast<std::size_t>(what.place)];
  const int number = one ? what.place : system_.places + what.server;
  return worker(w).lanes[static_cast<std::size_t>(2 * number + (direction == Direction::pull))];
}

const PsRoute& PsRun::route(Direction direction, int w, int m, int& id) const {
  const PsWorker& self = system_.workers[static_cast<std::size_t>(w)];
  const std::size_t place = static_cast<std::size_t>(message(m).place);
  id = direction == Direction::push ? self.push[place] : self.pull[place];
  return system_.routes[static_cast<std::size_t>(id)];
}

// Message m is to travel: behind the earlier ones of its lane, or when a serial server takes it up.
void PsRun::request(Direction direction, int w, int m) {
  const int server = message(m).server;
  if (system_.serial_servers) {
    Server& s = servers_[static_cast<std::size_t>(server)];
    // A server that answers each push at once does so before it takes the next one.
    const bool at_once = direction == Direction::pull && system_.rule.pushes_per_update == 1;
    s.tasks.insert(at_once ? s.tasks.begin() : s.tasks.end(), {direction, w, m});
    pump(server);
    return;
  }
  Lane& queue = lane(direction, w, m);
  if (queue.busy) {
    queue.waiting.push_back(m);
  } else {
    queue.busy = true;
    begin_transfer(direction, w, m);
  }
}

void PsRun::begin_transfer(Direction direction, int w, int m) {
  count_transfer(worker(w), direction, +1);
  transfer_begins(direction, w, m);
  int id = 0;
  const double latency = route(direction, w, m, id).latency;
  if (latency > 0) {
    schedule(now_ + latency, Kind::transfer_start, direction, w, m);
  } else {
    flow({direction, w, m});
  }
}

int PsRun::tag_of(const Flow& flow) const {
  const int message = flow.worker * static_cast<int>(system_.messages.size()) + flow.message;
  return 3 * message + (flow.tail ? 2 : flow.direction == Direction::pull ? 1 : 0);
}

PsRun::Flow PsRun::flow_of(int tag) const {
  const int messages = static_cast<int>(system_.messages.size());
  return {tag % 3 == 0 ? Direction::push : Direction::pull, tag / 3 / messages, tag / 3 % messages,
          tag % 3 == 2};
}

// A serial server is free again when the tail of its answer is in buffers on the way; the head is
// what comes before.
void PsRun::flow(const Flow& flow) {
  int id = 0;
  const PsRoute& way = route(flow.direction, flow.worker, flow.message, id);
  const PsMessage& what = message(flow.message);
  const bool push = flow.direction == Direction::push;
  const double bytes = push ? what.push_bytes : what.pull_bytes;
  const SharedCore* core = core_of_worker(flow.worker);
  const bool one_core = core != nullptr && core == core_of_server(what.server);
  const double flowing = system_.flow_bytes ? system_.flow_bytes(id, bytes, one_core) : bytes;
  double part = 1;
  if (system_.serial_servers && !push && bytes > 0) {
    const double tail = std::min(1.0, way.buffered_bytes / bytes);
    part = flow.tail ? tail : 1 - tail;
  }
  network_.start(id, part * flowing, system_.workers[static_cast<std::size_t>(flow.worker)].ranks,
                 tag_of(flow), now_);
}

void PsRun::transferred(Direction direction, int w, int m) {
  if (transfer_postponed(direction, w, m)) return;
  if (system_.serial_servers && direction == Direction::pull) {
    flow({direction, w, m, true});
    served(message(m).server);
    return;
  }
  Worker& self = worker(w);
  count_transfer(self, direction, -1);
  const int ranks = system_.workers[static_cast<std::size_t>(w)].ranks;
  const int server = message(m).server;
  if (!system_.serial_servers) {
    Lane& queue = lane(direction, w, m);
    if (queue.next == queue.waiting.size()) {
      queue.waiting.clear();
      queue.next = 0;
      queue.busy = false;
    } else {
      begin_transfer(direction, w, queue.waiting[queue.next++]);
    }
  }
  if (direction == Direction::push) {
    trace_.pushed_bytes += ranks * message(m).push_bytes;
    if (system_.serial_servers) {
      serve(server, {direction, w, m});
    } else {
      servers_[static_cast<std::size_t>(server)].tasks.push_back({direction, w, m});
      pump(server);
    }
    return;
  }
  receive(w, m);
}

void PsRun::pulled(int w, int m) {
  count_transfer(worker(w), Direction::pull, -1);
  receive(w, m);
}

void PsRun::receive(int w, int m) {
  trace_.pulled_bytes += system_.workers[static_cast<std::size_t>(w)].ranks * message(m).pull_bytes;
  if (--worker(w).missing == 0) finish_step(w);
}

void PsRun::count_transfer(Worker& self, Direction direction, int change) {
  book(self, now_);
  Activity& activity = self.transfers[direction == Direction::push ? 0 : 1];
  if (activity.running == 0) activity.since = now_;
  activity.running += change;
  if (activity.running == 0) activity.seconds += now_ - activity.since;
}

// Time after compute: exposed communication while an own transfer runs, waiting otherwise.
void PsRun::book(Worker& self, double until) {
  if (until <= self.booked_until) return;
  const bool transferring = self.transfers[0].running + self.transfers[1].running > 0;
  (transferring ? self.sum.exposed_communication : self.sum.waiting) += until - self.booked_until;
  self.booked_until = until;
}

}  // namespace lockstep
