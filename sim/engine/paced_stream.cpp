// The compute stream when collectives slow it down: it keeps pace with time.
#include <algorithm>
#include <utility>

#include "engine/range.hpp"
#include "engine/streams.hpp"

namespace lockstep {

void ComputeStream::pace_with_time() {
  paced_ = true;
  work_end_.resize(device_.size());
  measure_positions();
}

Program ComputeStream::serve() {
  while (true) {
    while (queue_.empty() ? !closing_ : !front_ready()) co_await bell_.rung();
    if (queue_.empty()) co_return;
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    if (item.kind == Item::Kind::compute) {
      co_await compute_beside_collectives(item);
    } else {
      process(item);
    }
  }
}

// The same as compute(), but the device slows down while collectives run. How long depends on
// collectives that may start or end until then: look, wait until that moment, look again until
// nothing has changed.
Program ComputeStream::compute_beside_collectives(const Item& item) {
  begin_beside_collectives(item, executor_.now());
  double end = end_beside_collectives(item);
  while (end > executor_.now()) {
    const bool changed = co_await interference_.bell().rung(end);
    if (!changed && interference_.changes() == changes_seen_) break;
    end = end_beside_collectives(item);
  }
  finish_beside_collectives(item);
  interference_.compute_ends(latest_);
}

void ComputeStream::begin_beside_collectives(const Item& item, double now) {
  find_work_ends(item);
  interference_.compute_begins(earliest_);
  changes_seen_ = interference_.changes();
  began_in_past_ = latest_ <= now;
  last_host_ = 0;
  if (host_never_binds(item)) return;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    last_host_ = std::max(last_host_,
                          item.host.at(lane) + scaled_span(item.work, item.factors->lanes[lane]));
  }
}

// When the last lane is done, if no further collective starts or ends.
double ComputeStream::end_beside_collectives(const Item& item) {
  const std::size_t seen = std::exchange(changes_seen_, interference_.changes());
  // Lanes that began before the first look keep their place in work time whatever happened since.
  if (seen != changes_seen_ && !began_in_past_) find_work_ends(item);
  return std::max(interference_.time_of(item.phase, work_end_range_.largest), last_host_);
}

void ComputeStream::find_work_ends(const Item& item) {
  interference_.work_curve(item.phase, {earliest_, latest_}).at(device_, work_end_);
  work_end_range_ = add_scaled(work_end_, item.work.busy, item.factors->lanes);
}

void ComputeStream::finish_beside_collectives(const Item& item) {
  const QueuedWork& work = item.work;
  const double before = position_sum_;
  const bool host_binds = !host_never_binds(item);
  if (watch_) watch_->remember(device_);
  interference_.time_curve(item.phase, work_end_range_).at(work_end_, device_);
  measure_positions();
  const double after = position_sum_;
  busy_part(sums_.split, item.phase) += after - before;
  sums_.interference += std::max(0.0, after - before - work.busy * item.factors->over_ranks);
  if (!host_binds) {
    if (watch_) tell_computed(item, &interference_);
    return;
  }
  double gap_sum = 0;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    const double busy_end = device_[lane];
    device_[lane] =
        std::max(busy_end, item.host.at(lane) + scaled_span(work, item.factors->lanes[lane]));
    gap_sum += ranks_[lane] * (device_[lane] - busy_end);
  }
  sums_.split.host_bound += gap_sum;
  measure_positions();
  if (watch_) tell_computed(item, &interference_);
}

void ComputeStream::measure_positions() {
  const Range range = range_of(device_);
  earliest_ = range.smallest;
  latest_ = range.largest;
  if (paced_) position_sum_ = sum_of_products(ranks_, device_);
}

}  // namespace lockstep
