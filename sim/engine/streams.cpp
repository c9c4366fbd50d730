#include "engine/streams.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "engine/range.hpp"

namespace lockstep {

namespace {

// Of a block of lanes we know the range, and with it which collectives its work can have met. More
// lanes have wider ranges, fewer are more to keep.
constexpr std::size_t block_lanes = 32;

}  // namespace

ComputeStream::ComputeStream(std::vector<double> ranks_per_lane, Interference& interference,
                             Doorbell& program)
    : ranks_(std::move(ranks_per_lane)),
      all_ranks_(std::accumulate(ranks_.begin(), ranks_.end(), 0.0)),
      interference_(interference),
      program_(program),
      device_(ranks_.size(), 0.0) {}

void ComputeStream::pace_with_time() {
  paced_ = true;
  const std::size_t blocks = (device_.size() + block_lanes - 1) / block_lanes;
  device_ranges_.resize(blocks);
  work_end_ranges_.resize(blocks);
  work_end_.resize(device_.size());
  measure_positions();
}

void ComputeStream::push(Item item) {
  if (paced_) {
    queue_.push_back(std::move(item));
    bell_.ring();
    return;
  }
  queue_.push_back(std::move(item));
  drain();
}

void ComputeStream::wake() {
  waiting_for_front_ = false;
  if (paced_) {
    bell_.ring();
  } else {
    drain();
  }
}

bool ComputeStream::front_ready() {
  const Item& front = queue_.front();
  if (front.kind != Item::Kind::wait || front.event.known()) return true;
  if (!waiting_for_front_) {
    front.event.state()->waiting.push_back(this);
    waiting_for_front_ = true;
  }
  return false;
}

// Processing an item may wake another actor, which may run at once and push more: those items must
// queue behind the one in progress.
void ComputeStream::drain() {
  if (draining_) return;
  draining_ = true;
  while (!queue_.empty() && front_ready()) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    process(item);
  }
  draining_ = false;
}

void ComputeStream::serve() {
  while (true) {
    bell_.wait([&] { return queue_.empty() ? closing_ : front_ready(); });
    if (queue_.empty()) return;
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    process(item);
  }
}

void ComputeStream::close() {
  closing_ = true;
  bell_.ring();
}

void ComputeStream::process(const Item& item) {
  switch (item.kind) {
    case Item::Kind::compute:
      if (paced_) {
        compute_beside_collectives(item);
      } else {
        compute(item);
      }
      break;
    case Item::Kind::wait:
      if (item.event.state()) wait(*item.event.state());
      break;
    case Item::Kind::record: {
      Event::State& state = *item.event.state();
      if (device_.size() == 1) {
        state.common = device_[0];
      } else {
        state.lanes = device_;
      }
      state.complete();
      break;
    }
    case Item::Kind::barrier:
      barrier();
      break;
    case Item::Kind::idle:
      idle(item.until, item.cause);
      break;
    case Item::Kind::end_step:
      end_step();
      break;
  }
}

Factors ComputeStream::make_factors(std::vector<double> lanes) const {
  auto factors = std::make_shared<LaneFactors>();
  const auto [smallest, largest] = std::minmax_element(lanes.begin(), lanes.end());
  factors->smallest = *smallest;
  factors->largest = *largest;
  factors->over_ranks = std::inner_product(lanes.begin(), lanes.end(), ranks_.begin(), 0.0);
  factors->lanes = std::move(lanes);
  return factors;
}

// Whether the host is so far ahead that no lane's device waits for it during the item.
bool ComputeStream::host_never_binds(const Item& item) const {
  const LaneFactors& factors = *item.factors;
  const double longest_span = item.work.span + std::max(0.0, factors.largest - 1) * item.work.busy;
  return item.host.latest() + longest_span <= earliest_ + item.work.busy * factors.smallest;
}

void ComputeStream::compute(const Item& item) {
  const QueuedWork& work = item.work;
  const double* factors = item.factors->lanes.data();
  double* device = device_.data();
  const std::size_t lanes = device_.size();
  busy_part(sums_.split, item.phase) += work.busy * item.factors->over_ranks;
  if (host_never_binds(item)) {
    for (std::size_t lane = 0; lane < lanes; ++lane) device[lane] += work.busy * factors[lane];
    earliest_ += work.busy * item.factors->smallest;
    return;
  }
  double gap_sum = 0;
  earliest_ = std::numeric_limits<double>::infinity();
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const double busy_end = device[lane] + work.busy * factors[lane];
    device[lane] = std::max(busy_end, item.host.at(lane) + scaled_span(work, factors[lane]));
    gap_sum += ranks_[lane] * (device[lane] - busy_end);
    earliest_ = std::min(earliest_, device[lane]);
  }
  sums_.split.host_bound += gap_sum;
}

// The same, but the device slows down while collectives run. How long depends on collectives that
// may start or end until then: look, wait until that moment, look again until nothing has changed.
void ComputeStream::compute_beside_collectives(const Item& item) {
  find_work_ends(item);
  interference_.compute_begins(earliest_);
  const double looked_at = sg::s4u::Engine::get_clock();
  const bool known_past = latest_ <= looked_at;
  double last_host = 0;
  if (!host_never_binds(item)) {
    for (std::size_t lane = 0; lane < device_.size(); ++lane) {
      last_host = std::max(last_host,
                           item.host.at(lane) + scaled_span(item.work, item.factors->lanes[lane]));
    }
  }
  while (true) {
    const std::size_t changes = interference_.changes();
    const double end =
        std::max(interference_.time_of(item.phase, work_end_range_.largest), last_host);
    const double ahead = end - sg::s4u::Engine::get_clock();
    if (ahead <= 0) break;
    sg::s4u::this_actor::sleep_for(ahead);
    if (interference_.changes() == changes) break;
    // Lanes that began before the first look keep their place in work time whatever happened since.
    if (!known_past) find_work_ends(item);
  }
  finish_beside_collectives(item);
  interference_.compute_ends(latest_);
}

template <class Visit>
void ComputeStream::for_each_block(Visit&& visit) const {
  for (std::size_t block = 0, from = 0; from < device_.size(); ++block, from += block_lanes) {
    visit(block, from, std::min(block_lanes, device_.size() - from));
  }
}

void ComputeStream::find_work_ends(const Item& item) {
  const double busy = item.work.busy;
  const Curve curve = interference_.work_curve(item.phase, {earliest_, latest_});
  work_end_range_ = {};
  for_each_block([&](std::size_t block, std::size_t from, std::size_t count) {
    const std::span<double> ends(&work_end_[from], count);
    curve.at({&device_[from], count}, device_ranges_[block], ends);
    const double* factors = &item.factors->lanes[from];
    for (std::size_t lane = 0; lane < count; ++lane) ends[lane] += busy * factors[lane];
    work_end_ranges_[block] = range_of(ends);
    work_end_range_.include(work_end_ranges_[block]);
  });
}

void ComputeStream::finish_beside_collectives(const Item& item) {
  const QueuedWork& work = item.work;
  const double before = position_sum_;
  const bool host_binds = !host_never_binds(item);
  const Curve curve = interference_.time_curve(item.phase, work_end_range_);
  double after = 0;
  Range range;
  for_each_block([&](std::size_t block, std::size_t from, std::size_t count) {
    const std::span<double> ends(&device_[from], count);
    curve.at({&work_end_[from], count}, work_end_ranges_[block], ends);
    for (std::size_t lane = 0; lane < count; ++lane) after += ranks_[from + lane] * ends[lane];
    device_ranges_[block] = range_of(ends);
    range.include(device_ranges_[block]);
  });
  busy_part(sums_.split, item.phase) += after - before;
  sums_.interference += std::max(0.0, after - before - work.busy * item.factors->over_ranks);
  earliest_ = range.smallest;
  latest_ = range.largest;
  position_sum_ = after;
  if (!host_binds) return;
  double gap_sum = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    const double busy_end = device_[lane];
    device_[lane] =
        std::max(busy_end, item.host.at(lane) + scaled_span(work, item.factors->lanes[lane]));
    gap_sum += ranks_[lane] * (device_[lane] - busy_end);
  }
  sums_.split.host_bound += gap_sum;
  measure_positions();
}

void ComputeStream::measure_positions() {
  if (!paced_) {
    earliest_ = range_of(device_).smallest;
    return;
  }
  Range range;
  for_each_block([&](std::size_t block, std::size_t from, std::size_t count) {
    device_ranges_[block] = range_of({&device_[from], count});
    range.include(device_ranges_[block]);
  });
  earliest_ = range.smallest;
  latest_ = range.largest;
  position_sum_ = std::inner_product(ranks_.begin(), ranks_.end(), device_.begin(), 0.0);
}

void ComputeStream::book_idle(WaitCause cause, double seconds) {
  switch (cause) {
    case WaitCause::communication:
      sums_.split.exposed_communication += seconds;
      break;
    case WaitCause::data_loading:
      sums_.split.data_loading += seconds;
      break;
    case WaitCause::copies:  // the device is busy, on another stream
      sums_.split.copies += seconds;
      break;
    case WaitCause::waiting:
      sums_.split.waiting += seconds;
      break;
  }
}

void ComputeStream::wait(const Event::State& state) {
  if (state.lanes.empty() && state.common <= earliest_) return;
  double gap_sum = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    const double begin = device_[lane];
    const double end = state.at(lane);
    if (end <= begin) continue;
    device_[lane] = end;
    if (state.communicator == nullptr) {
      gap_sum += ranks_[lane] * (end - begin);
      continue;
    }
    const Communicator::Gap gap = state.communicator->divide(state, lane, begin);
    sums_.split.exposed_communication += ranks_[lane] * gap.exposed;
    sums_.split.host_bound += ranks_[lane] * gap.host_bound;
    sums_.split.waiting += ranks_[lane] * gap.waiting;
  }
  book_idle(state.cause, gap_sum);
  measure_positions();
}

void ComputeStream::barrier() {
  const double latest = *std::max_element(device_.begin(), device_.end());
  idle(latest, WaitCause::waiting);
}

void ComputeStream::idle(double until, WaitCause cause) {
  double gap_sum = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    if (until <= device_[lane]) continue;
    gap_sum += ranks_[lane] * (until - device_[lane]);
    device_[lane] = until;
  }
  book_idle(cause, gap_sum);
  measure_positions();
}

void ComputeStream::end_step() {
  double position = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane)
    position += ranks_[lane] * device_[lane];
  position /= all_ranks_;
  StepRecord step = sums_;
  for (const auto part : step_parts) step.split.*part /= all_ranks_;
  step.interference /= all_ranks_;
  step.seconds = position - step_start_;
  steps_.push_back(step);
  step_start_ = position;
  sums_ = {};
  interference_.forget(earliest_);
  program_.ring();
}

Event SideStream::push(double seconds, const HostClock* host, const Event& after) {
  auto done = std::make_shared<Event::State>();
  done->cause = cause_;
  queue_.push_back({seconds, host != nullptr, host ? *host : HostClock{}, after, done});
  // Otherwise the item in front has asked to be woken already; once is enough.
  if (queue_.size() == 1) drain();
  return Event(done);
}

void SideStream::drain() {
  if (draining_) return;
  draining_ = true;
  while (!queue_.empty() && known_or_wake(queue_.front().after, *this)) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    const Event::State* after = item.after.state().get();
    for (std::size_t lane = 0; lane < free_.size(); ++lane) {
      double begin = free_[lane];
      if (item.hosted) begin = std::max(begin, item.host.at(lane));
      if (after) begin = std::max(begin, after->at(lane));
      free_[lane] = begin + item.seconds;
    }
    if (free_.size() == 1) {
      item.done->common = free_[0];
    } else {
      item.done->lanes = free_;
    }
    item.done->complete();
  }
  draining_ = false;
}

}  // namespace lockstep
