// Computes the items of the compute stream in order, each as soon as its events are known. Work
// follows the rule of QueuedWork: a lane's device is done at max(device + busy, host + span). All
// lanes share one queue, so each item is a loop over lanes.
#include "engine/streams.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "engine/range.hpp"

namespace lockstep {

ComputeStream::ComputeStream(std::vector<double> ranks_per_lane, Interference& interference,
                             Executor& executor, Bell& program, Watch* watch)
    : ranks_(std::move(ranks_per_lane)),
      all_ranks_(std::accumulate(ranks_.begin(), ranks_.end(), 0.0)),
      interference_(interference),
      executor_(executor),
      program_(program),
      watch_(watch),
      device_(ranks_.size(), 0.0),
      bell_(executor),
      lane_start_(ranks_.size(), 0.0) {
  sums_.lanes = LaneSteps(ranks_.size());
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

// Only an item of kind wait needs an event. The stream registers at the event once.
bool ComputeStream::front_ready() {
  const Item& front = queue_.front();
  if (front.kind != Item::Kind::wait || front.event.known()) return true;
  if (!waiting_for_front_) {
    front.event.state()->waiting.push_back(this);
    waiting_for_front_ = true;
  }
  return false;
}

// Computing an item may make events known, and such an event may wake this stream for a later item.
// `draining_` turns these nested calls into further turns of the loop.
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

void ComputeStream::close() {
  closing_ = true;
  bell_.ring();
}

// Computes the front item. Without interference, this needs no simulated time.
void ComputeStream::process(const Item& item) {
  if (watch_) watch_->remember(device_);
  switch (item.kind) {
    case Item::Kind::compute:
      compute(item);
      if (watch_) tell_computed(item, nullptr);
      break;
    case Item::Kind::exchanged:
      compute_exchanged(item);
      break;
    case Item::Kind::wait:
      wait(*item.event.state());
      if (watch_) watch_->waited(*item.event.state(), device_);
      break;
    case Item::Kind::record: {
      Event::State& state = *item.event.state();
      // One lane needs no list of times.
      if (device_.size() == 1) {
        state.common = device_[0];
        state.complete();
        break;
      }
      state.lanes.assign(device_.begin(), device_.end());
      for (std::size_t lane = 0; item.last_of && lane < device_.size(); ++lane) {
        // The latest position among the listed lanes.
        state.lanes[lane] = 0;
        for (const int other : (*item.last_of)[lane]) {
          state.lanes[lane] = std::max(state.lanes[lane], device_[static_cast<std::size_t>(other)]);
        }
      }
      state.complete();
      break;
    }
    case Item::Kind::post: {
      Event::State& state = *item.event.state();
      state.lanes.assign(device_.begin(), device_.end());
      for (std::size_t lane = 0; lane < device_.size(); ++lane) {
        state.lanes[lane] = std::max(state.lanes[lane], item.host.at(lane));
      }
      state.complete();
      break;
    }
    case Item::Kind::end_step:
      end_step(item.host);
      if (watch_) watch_->step_ended(device_);
      break;
    case Item::Kind::mark:
      item.mark->sums = sums_;
      item.mark->device = device_;
      program_.ring();
      break;
    case Item::Kind::repeat:
      repeat(*item.repetition);
      break;
  }
}

Factors ComputeStream::make_factors(std::vector<double> lanes) const {
  auto factors = std::make_shared<LaneFactors>();
  const Range range = range_of(lanes);
  factors->smallest = range.smallest;
  factors->largest = range.largest;
  factors->over_ranks = sum_of_products(lanes, ranks_);
  factors->lanes = std::move(lanes);
  return factors;
}

// Whether the host is so far ahead that no lane's device waits for it during the item. The test
// uses bounds over all lanes; if it succeeds, the loop over lanes is a single multiply-add.
bool ComputeStream::host_never_binds(const Item& item) const {
  const LaneFactors& factors = *item.factors;
  const double longest_span = item.work.span + std::max(0.0, factors.largest - 1) * item.work.busy;
  return item.host.latest() + longest_span <= earliest_ + item.work.busy * factors.smallest;
}

// Adds the work to each lane's position. If the lane ends later than a device that is always busy
// would, the difference is host-bound idle time.
void ComputeStream::compute(const Item& item) {
  const QueuedWork& work = item.work;
  const double* factors = item.factors->lanes.data();
  double* device = device_.data();
  const std::size_t lanes = device_.size();
  busy_part(sums_.split, item.phase) += work.busy * item.factors->over_ranks;
  if (host_never_binds(item)) {
    add_scaled(device_, work.busy, item.factors->lanes);
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

void ComputeStream::tell_computed(const Item& item, Interference* pace) const {
  watch_->computed(item.phase, item.work, item.label, item.factors->lanes, item.host, device_,
                   pace);
}

void ComputeStream::book_idle(WaitCause cause, double seconds) {
  switch (cause) {
    case WaitCause::communication:
      sums_.split.exposed_communication += seconds;
      sums_.split.exposed.data += seconds;
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
    case WaitCause::host_bound:
      sums_.split.host_bound += seconds;
      break;
    case WaitCause::optimizer:  // on the host
      sums_.split.optimizer += seconds;
      break;
    case WaitCause::bubble:
      sums_.split.bubble += seconds;
      break;
  }
}

// Moves each lane to the event and books the idle time: for a collective by the communicator's
// windows, otherwise under the event's single cause.
void ComputeStream::wait(const Event::State& state) {
  // No lane waits.
  if (state.lanes.empty() && state.common <= earliest_) return;
  if (state.communicator != nullptr) {
    const Gap gap = state.communicator->divide(state, ranks_, device_, sums_.lanes);
    sums_.split.exposed_communication += gap.exposed;
    sums_.split.exposed.*state.communicator->axis() += gap.exposed;
    sums_.split.host_bound += gap.host_bound;
    sums_.split.waiting += gap.waiting;
    sums_.split.bubble += gap.bubble;
  } else {
    double gap_sum = 0;
    for (std::size_t lane = 0; lane < device_.size(); ++lane) {
      const double gap = std::max(0.0, state.at(lane) - device_[lane]);
      gap_sum += ranks_[lane] * gap;
      if (state.cause == WaitCause::communication) sums_.lanes.communicating[lane] += gap;
      if (state.cause == WaitCause::waiting) sums_.lanes.waiting[lane] += gap;
      device_[lane] = std::max(device_[lane], state.at(lane));
    }
    book_idle(state.cause, gap_sum);
  }
  measure_positions();
}

// The differences between the two marks, multiplied by `times`.
Repetition::Repetition(const Mark& from, const Mark& to, int times)
    : seconds(std::numeric_limits<double>::infinity()), sums(to.sums) {
  for (std::size_t lane = 0; lane < to.device.size(); ++lane) {
    longer_by.push_back(times * (to.device[lane] - from.device[lane]));
    seconds = std::min(seconds, longer_by.back());
    for (const auto part : {&LaneSteps::communicating, &LaneSteps::waiting}) {
      double& own = (sums.lanes.*part)[lane];
      own = times * (own - (from.sums.lanes.*part)[lane]);
    }
  }
  for (double& lane : longer_by) lane -= seconds;
  sums.interference = times * (sums.interference - from.sums.interference);
  for (const auto part : step_parts) {
    sums.split.*part = times * (sums.split.*part - from.sums.split.*part);
  }
  for (const auto axis : axis_parts) {
    double& own = sums.split.exposed.*axis;
    own = times * (own - from.sums.split.exposed.*axis);
  }
}

void ComputeStream::repeat(const Repetition& repetition) {
  repeated_ += repetition.seconds;
  sums_.interference += repetition.sums.interference;
  add(sums_.split, repetition.sums.split, 1);
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    device_[lane] += repetition.longer_by[lane];
    sums_.lanes.communicating[lane] += repetition.sums.lanes.communicating[lane];
    sums_.lanes.waiting[lane] += repetition.sums.lanes.waiting[lane];
  }
  measure_positions();
}

// Closes the step's record: sums over ranks become means, and the lanes' times are measured from
// the end of the previous step. Repeated stretches, which take no simulated time, are added.
void ComputeStream::end_step(const HostClock& host) {
  double position = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane)
    position += ranks_[lane] * device_[lane];
  position /= all_ranks_;
  StepRecord step = std::move(sums_);
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    step.lanes.seconds[lane] = device_[lane] - lane_start_[lane] + repeated_;
    step.lanes.host[lane] = host.at(lane) - host_start_.at(lane) + repeated_;
  }
  lane_start_ = device_;
  host_start_ = host;
  for (const auto part : step_parts) step.split.*part /= all_ranks_;
  for (const auto axis : axis_parts) step.split.exposed.*axis /= all_ranks_;
  step.interference /= all_ranks_;
  step.seconds = position - step_start_ + std::exchange(repeated_, 0);
  steps_.push_back(std::move(step));
  step_start_ = position;
  sums_ = {};
  sums_.lanes = LaneSteps(device_.size());
  program_.ring();
}

}  // namespace lockstep
