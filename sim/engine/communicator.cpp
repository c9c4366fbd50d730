// Computes the collectives of a communicator in order. A collective starts when the last lane of
// the group is ready and the collective before it has ended. It ends at start + latency + bytes /
// lone rate if no other transfer can share its links, otherwise when the executor's network has
// carried it.
#include "engine/communicator.hpp"

#include <algorithm>
#include <utility>

#include "engine/range.hpp"
#include "engine/streams.hpp"

namespace lockstep {

Communicator::Communicator(std::string name, double AxisSeconds::*axis, int lanes,
                           const std::vector<std::vector<int>>& groups, Interference& interference,
                           Network& network, Links& carried, Watch* watch)
    : name_(std::move(name)),
      axis_(axis),
      lanes_(static_cast<std::size_t>(lanes)),
      interference_(interference),
      network_(network),
      links_(carried),
      watch_(watch),
      windows_(name_, lanes_, groups),
      bell_(network.executor()) {
  interference_.runs_beside(windows_);
}

Event Communicator::start(const TransferSpec& spec, const HostClock& host, const Event& after,
                          const Event& issued, std::shared_ptr<Event::State> done) {
  if (!done) done = make_event_state();
  done->communicator = this;
  Observer::Number launch = 0;
  if (watch_) {
    launch = watch_->observer().number(2);
    done->number = launch + 1;
    watch_->host_work(spec.name, host, 0, launch);
  }
  network_.asks(spec, this);
  links_.add_bytes(spec);
  known_or_wake(after, *this);
  known_or_wake(issued, *this);
  queue_.push_back({spec, host, after, issued, done, launch});
  advance();
  return Event(done);
}

// Takes collectives from the queue. The end of a transfer is known in advance if no other transfer
// shares its links and compute does not slow it down; no simulated time has to pass to find that
// end. Other transfers are carried by serve(), one after the other.
void Communicator::advance() {
  if (advancing_) return;
  advancing_ = true;
  while (!carried_ && !queue_.empty() && ready(queue_.front())) {
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    find_start(operation);
    if (takes_lone_seconds(operation.spec)) {
      operation.end = windows_.at(operation.done->serial, operation.last).start +
                      network_.count_lone(operation.spec);
      finish(operation);
    } else {
      interference_.carries();
      carried_ = std::move(operation);
      bell_.ring();
    }
  }
  advancing_ = false;
}

bool Communicator::takes_lone_seconds(const TransferSpec& spec) const {
  return network_.alone(spec) && (!interference_.on() || spec.speed_beside_compute >= 1);
}

Program Communicator::serve() {
  while (true) {
    while (!carried_ && !(closing_ && queue_.empty())) co_await bell_.rung();
    if (!carried_) co_return;
    co_await carry(*carried_);
    Operation operation = std::move(*carried_);
    carried_.reset();
    interference_.has_carried();
    finish(operation);
    advance();
  }
}

void Communicator::close() {
  closing_ = true;
  bell_.ring();
}

// Sets when each lane is ready: its host has issued the collective, and the work before it is over.
// If the work before it is a collective of another communicator, the wait for that collective is
// not included here, and divide() gets its cause from the other communicator.
void Communicator::find_ready(Operation& operation) const {
  Lanes& ready = operation.done->ready;
  const HostClock& host = operation.host;
  const Event::State* after = operation.after.state().get();
  if (after && after->communicator != this) {
    operation.done->comes_after(operation.after.state());
    if (operation.done->before) after = nullptr;
  }
  if (after && !after->lanes.empty()) {
    ready = after->lanes;
  } else {
    ready.assign(lanes_, after ? after->common : 0);
  }
  if (host.base) {
    const double* base = host.base->data();
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      ready[lane] = std::max(base[lane] + host.offset, ready[lane]);
    }
  } else {
    for (double& moment : ready) moment = std::max(host.offset, moment);
  }
  if (const Event::State* issued = operation.issued.state().get()) {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      ready[lane] = std::max(ready[lane], issued->at(lane));
    }
  }
}

// Sets when every group starts: its last lane is available, and its previous collective is over.
void Communicator::find_start(Operation& operation) {
  Event::State& done = *operation.done;
  find_ready(operation);
  done.serial = windows_.add({operation.done, interference_.kind_of(operation.spec)});
  const std::span<Window> now = windows_.of(done.serial);
  if (windows_.together() && !done.before) {
    now[0].start = std::max(0.0, range_of(done.ready).largest);
  } else {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      Window& window = now[windows_.group_of(lane)];
      window.start = std::max(window.start, available(done, lane));
    }
  }
  // The window of the previous collective exists, because forget() spares the last one.
  for (std::size_t g = 0; g < now.size() && done.serial > 0; ++g) {
    now[g].start = std::max(now[g].start, windows_.at(done.serial - 1, g).end);
  }
  const auto later = [](const Window& a, const Window& b) { return a.start < b.start; };
  operation.last =
      static_cast<std::size_t>(std::max_element(now.begin(), now.end(), later) - now.begin());
  interference_.change();
}

// Sets the end of every group's transfer, once the transfer of the group that starts last is over.
// The transfer takes the same number of seconds in all groups.
void Communicator::finish(Operation& operation) {
  Event::State& done = *operation.done;
  const std::span<Window> now = windows_.of(done.serial);
  const double seconds = operation.end - now[operation.last].start;
  for (Window& window : now) window.end = window.start + seconds;
  now[operation.last].end = operation.end;
  links_.add_busy(operation.spec, seconds - operation.spec.latency_seconds);
  if (windows_.together()) {
    done.common = operation.end;
  } else {
    done.lanes.resize(lanes_);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      done.lanes[lane] = now[windows_.group_of(lane)].end;
    }
  }
  if (watch_) tell(operation);
  operation.after = operation.issued = {};
  interference_.change();
  done.complete();
}

// Carries a transfer through the network and appends the time that it loses because of compute.
Program Communicator::carry(Operation& operation) {
  Executor& executor = network_.executor();
  const double start = windows_.at(operation.done->serial, operation.last).start;
  co_await executor.sleep_until(start);
  operation.computed = interference_.computed_until(executor.now());
  co_await network_.carry(operation.spec, start, operation.end);
  while (const double missed = fallen_behind(operation, executor.now())) {
    operation.end = std::max(operation.end, executor.now()) + missed;
    co_await executor.sleep_until(operation.end);
  }
}

// Seconds that a transfer has lost since the last call, because its threads share cores with
// compute (`speed_beside_compute` < 1). The caller appends the lost time to the transfer. During
// the appended time the transfer may lose more, which is appended too, until nothing is lost. The
// result is exact in the limit. All bytes cross the links before the appended time.
double Communicator::fallen_behind(Operation& operation, double now) const {
  const double speed = operation.spec.speed_beside_compute;
  if (speed >= 1) return 0;
  const double before = std::exchange(operation.computed, interference_.computed_until(now));
  const double missed = (1 - speed) * (operation.computed - before);
  // A sleep shorter than the clock's precision would make the caller's loop endless.
  const double negligible =
      std::max(1e-12 * (operation.end - windows_.at(operation.done->serial, operation.last).start),
               2 * clock_precision);
  return missed > negligible ? missed : 0;
}

// If all lanes have the same windows, several are divided at once (gap.cpp); all others are divided
// lane by lane.
Gap Communicator::divide(const Event::State& state, std::span<const double> ranks,
                         std::span<double> positions, LaneSteps& steps) const {
  Gap sum;
  if (windows_.forgotten(state.serial)) return sum;  // over before any lane's position
  std::size_t lane = 0;
  if (windows_.together() && !receiver_) {
    const double earliest = range_of(positions).smallest;
    // The first collective for which a lane may have stood still.
    std::size_t first = state.serial;
    while (first > windows_.first() && windows_.at(first - 1, 0).end > earliest) --first;
    bool alone = true;  // no collective comes after one of another communicator
    for (std::size_t serial = first; serial <= state.serial && alone; ++serial) {
      alone = windows_.collective(serial).state->before == nullptr;
    }
    if (alone) lane = divide_together(windows_, first, state.serial, ranks, positions, steps, sum);
  }
  for (; lane < lanes_; ++lane) {
    Gap gap;
    idle_before(state, lane, positions[lane], [&](WaitCause cause, double start, double end) {
      double& part = cause == WaitCause::communication ? gap.exposed
                     : cause == WaitCause::host_bound  ? gap.host_bound
                     : cause == WaitCause::bubble      ? gap.bubble
                                                       : gap.waiting;
      part += end - start;
    });
    sum.exposed += ranks[lane] * gap.exposed;
    sum.host_bound += ranks[lane] * gap.host_bound;
    sum.waiting += ranks[lane] * gap.waiting;
    sum.bubble += ranks[lane] * gap.bubble;
    steps.communicating[lane] += gap.exposed;
    steps.waiting[lane] += gap.waiting + gap.bubble;
    positions[lane] =
        std::max(positions[lane], windows_.at(state.serial, windows_.group_of(lane)).end);
  }
  return sum;
}

void Communicator::forget(double time) {
  windows_.forget(receiver_ ? std::min(time, receiver_->earliest()) : time);
}

void Communicator::forget_some(double time) {
  if (windows_.count() - windows_.first() < forgets_at_) return;
  forget(time);
  forgets_at_ = std::max<std::size_t>(64, 2 * (windows_.count() - windows_.first()));
}

// Reports a finished collective to the observer, for the watched lanes.
void Communicator::tell(const Operation& operation) const {
  const TransferSpec& spec = operation.spec;
  const Event::State& done = *operation.done;
  for (const int lane : watch_->lanes()) {
    const auto i = static_cast<std::size_t>(lane);
    const Window& window = windows_.at(done.serial, windows_.group_of(i));
    watch_->observer().on_transfer({watch_->stream(lane, name_), spec.name, spec.what, spec.which,
                                    spec.bytes, available(done, i), window.start, window.end,
                                    spec.uses, done.number, operation.launch});
  }
}

}  // namespace lockstep
