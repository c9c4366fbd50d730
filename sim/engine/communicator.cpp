#include "engine/communicator.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "engine/range.hpp"

namespace lockstep {

namespace {

// The collective of another communicator that the one behind `state` came after; null = none.
const Event::State* collective_before(const Event::State& state) {
  const Event::State* before = state.before.get();
  while (before && !before->communicator) before = before->before.get();
  return before && before->communicator != state.communicator ? before : nullptr;
}

}  // namespace

Communicator::Communicator(std::string name, int lanes, std::vector<std::vector<int>> groups,
                           Interference& interference, Network& network, Watch* watch)
    : name_(std::move(name)),
      lanes_(static_cast<std::size_t>(lanes)),
      groups_(std::max<std::size_t>(1, groups.size())),
      interference_(interference),
      network_(network),
      watch_(watch),
      bell_(network.executor()) {
  if (groups.size() > 1) {
    group_of_lane_.assign(lanes_, -1);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const int lane : groups[g])
        group_of_lane_.at(static_cast<std::size_t>(lane)) = static_cast<int>(g);
    }
    if (std::count(group_of_lane_.begin(), group_of_lane_.end(), -1) > 0) {
      throw std::logic_error("communicator " + name_ + ": its groups do not cover every lane");
    }
  }
}

Event Communicator::start(const TransferSpec& spec, const HostClock& host, const Event& after,
                          const Event& issued) {
  auto done = std::make_shared<Event::State>();
  done->communicator = this;
  Observer::Number launch = 0;
  if (watch_) {
    launch = watch_->observer().number(2);
    done->number = launch + 1;
    watch_->host_work(spec.name, host, 0, launch);
  }
  known_or_wake(after, *this);
  known_or_wake(issued, *this);
  queue_.push_back({spec, host, after, issued, done, launch});
  bell_.ring();
  return Event(done);
}

Program Communicator::serve() {
  while (true) {
    while (queue_.empty() ? !closing_ : !ready(queue_.front())) co_await bell_.rung();
    if (queue_.empty()) co_return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    find_start(operation);
    if (interference_.on()) {
      co_await carry_beside_compute(operation);
    } else {
      co_await network_.carry(operation.spec, operation.windows[operation.last].start,
                              operation.end);
    }
    finish(operation);
  }
}

void Communicator::close() {
  closing_ = true;
  bell_.ring();
}

// When each lane is ready: its host has issued the collective, and the work before it is over. A
// collective of another communicator before it is kept apart: divide() asks there for the cause.
void Communicator::find_ready(Operation& operation) const {
  std::vector<double>& ready = operation.done->ready;
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

// When the lane may take part: it is ready, and the collective before this one is over.
double Communicator::available(const Event::State& state, std::size_t lane) const {
  const double ready = state.ready[lane];
  return state.before ? std::max(ready, state.before->at(lane)) : ready;
}

// When every group starts: its last lane is available, and its collective before is over.
void Communicator::find_start(Operation& operation) {
  Event::State& done = *operation.done;
  std::vector<Window>& now = operation.windows;
  done.serial = carried_++;
  now.resize(groups_);
  find_ready(operation);
  if (group_of_lane_.empty() && !done.before) {
    now[0].start = std::max(0.0, range_of(done.ready).largest);
  } else {
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      Window& window = now[group_of(lane)];
      window.start = std::max(window.start, available(done, lane));
    }
  }
  for (std::size_t g = 0; g < groups_ && done.serial > 0; ++g) {
    now[g].start = std::max(now[g].start, window(done.serial - 1, g).end);
  }
  const auto later = [](const Window& a, const Window& b) { return a.start < b.start; };
  operation.last =
      static_cast<std::size_t>(std::max_element(now.begin(), now.end(), later) - now.begin());
}

// Sets the end of every group's transfer, once the end of the last one is known.
void Communicator::finish(Operation& operation) {
  Event::State& done = *operation.done;
  std::vector<Window>& now = operation.windows;
  const double seconds = operation.end - now[operation.last].start;
  for (Window& window : now) window.end = window.start + seconds;
  now[operation.last].end = operation.end;
  windows_.insert(windows_.end(), now.begin(), now.end());
  if (group_of_lane_.empty()) {
    done.common = operation.end;
  } else {
    done.lanes.resize(lanes_);
    for (std::size_t lane = 0; lane < lanes_; ++lane) {
      done.lanes[lane] = now[static_cast<std::size_t>(group_of_lane_[lane])].end;
    }
  }
  if (watch_) tell(operation);
  operation.after = operation.issued = {};
  done.complete();
}

Program Communicator::carry_beside_compute(Operation& operation) {
  Executor& executor = network_.executor();
  const double start = operation.windows[operation.last].start;
  co_await executor.sleep_until(start);
  interference_.start(executor.now(), operation.spec);
  operation.computed = interference_.computed_until(executor.now());
  co_await network_.carry(operation.spec, start, operation.end);
  while (const double missed = fallen_behind(operation, executor.now())) {
    operation.end = std::max(operation.end, executor.now()) + missed;
    co_await executor.sleep_until(operation.end);
  }
  interference_.stop(executor.now(), operation.spec);
}

// A transfer whose threads share a core with compute falls behind while compute runs. What it
// missed is made up for afterwards, what it misses then after that, and so on: exact in the limit,
// and the transfer still fills the time until its end, whatever compute does meanwhile. Links carry
// all of it in the first part.
double Communicator::fallen_behind(Operation& operation, double now) const {
  const double speed = operation.spec.speed_beside_compute;
  if (speed >= 1) return 0;
  const double before = std::exchange(operation.computed, interference_.computed_until(now));
  const double missed = (1 - speed) * (operation.computed - before);
  // Sleeps shorter than the clock's precision would go on for ever.
  const double negligible = std::max(
      1e-12 * (operation.end - operation.windows[operation.last].start), 2 * clock_precision);
  return missed > negligible ? missed : 0;
}

Gap Communicator::divide(const Event::State& state, std::span<const double> ranks,
                         std::span<double> positions, LaneSteps& steps) const {
  Gap sum;
  if (forgotten(state.serial)) return sum;  // over before any lane's position
  std::size_t lane = 0;
  if (group_of_lane_.empty() && !state.before) {
    const std::size_t kept = state.serial + 1 - first_kept_;
    lane = divide_together({windows_.data(), kept}, state.ready, ranks, positions, steps, sum);
  }
  for (; lane < lanes_; ++lane) {
    const Gap gap = divide_lane(state, lane, positions[lane]);
    sum.exposed += ranks[lane] * gap.exposed;
    sum.host_bound += ranks[lane] * gap.host_bound;
    sum.waiting += ranks[lane] * gap.waiting;
    steps.communicating[lane] += gap.exposed;
    steps.waiting[lane] += gap.waiting;
    positions[lane] = std::max(positions[lane], window(state.serial, group_of(lane)).end);
  }
  return sum;
}

// The idle time right before the collective divides in this order: what it came after, by its own
// causes; then the own host; then the other ranks.
Gap Communicator::divide_lane(const Event::State& state, std::size_t lane, double from) const {
  Gap gap;
  if (forgotten(state.serial)) return gap;
  const std::size_t group = group_of(lane);
  const Window& own = window(state.serial, group);
  if (own.end <= from) return gap;
  double idle_from = from;
  gap.exposed = own.end - std::max(own.start, from);
  for (std::size_t serial = state.serial; serial-- > 0;) {
    if (forgotten(serial)) break;
    const Window& earlier = window(serial, group);
    if (earlier.end <= from) break;
    if (serial + 1 == state.serial) idle_from = earlier.end;
    gap.exposed += earlier.end - std::max(earlier.start, from);
  }
  if (const Event::State* before = collective_before(state)) {
    const Gap earlier = before->communicator->divide_lane(*before, lane, idle_from);
    gap.exposed += earlier.exposed;
    gap.host_bound += earlier.host_bound;
    idle_from = std::max(idle_from, before->at(lane));
  }
  gap.host_bound +=
      std::clamp(available(state, lane) - idle_from, 0.0, std::max(0.0, own.start - idle_from));
  gap.waiting = std::max(0.0, own.end - from - gap.exposed - gap.host_bound);
  return gap;
}

void Communicator::idle_before(const Event::State& state, std::size_t lane, double from,
                               std::vector<Idle>& pieces) const {
  const std::size_t group = group_of(lane);
  if (forgotten(state.serial)) return;
  std::size_t serial = state.serial;
  while (serial > first_kept_ && window(serial - 1, group).end > from) --serial;
  const auto idle = [&](WaitCause cause, double until) {
    if (until > from) pieces.push_back({cause, from, until});
    from = std::max(from, until);
  };
  for (; serial <= state.serial; ++serial) {
    const Window& next = window(serial, group);
    if (serial == state.serial) {
      if (const Event::State* before = collective_before(state)) {
        before->communicator->idle_before(*before, lane, from, pieces);
        from = std::max(from, before->at(lane));
      }
      idle(WaitCause::host_bound, std::min(available(state, lane), next.start));
    }
    idle(WaitCause::waiting, next.start);
    idle(WaitCause::communication, next.end);
  }
}

void Communicator::tell(const Operation& operation) const {
  const TransferSpec& spec = operation.spec;
  for (const int lane : watch_->lanes()) {
    const auto i = static_cast<std::size_t>(lane);
    const Window& window = operation.windows[group_of(i)];
    watch_->observer().on_transfer({watch_->stream(lane, name_), spec.name, spec.what, spec.which,
                                    spec.bytes, available(*operation.done, i), window.start,
                                    window.end, spec.uses, operation.done->number,
                                    operation.launch});
  }
}

void Communicator::forget(double time) {
  std::size_t over = 0;
  while (over < windows_.size() && windows_[over].end <= time) ++over;
  over /= groups_;  // whole collectives: one that is over in some groups only is still asked about
  if (over > 0 && over * groups_ == windows_.size())
    --over;  // the next one starts after the latest
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(over * groups_));
  first_kept_ += over;
}

}  // namespace lockstep
