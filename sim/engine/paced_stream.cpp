// The compute stream of ranks whose work is slowed down by collectives (engine/interference.hpp).
// Such a stream advances with simulated time: an item is finished only when simulated time has
// reached the item's end, because a collective that is issued later may slow down work that begins
// now.
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

void ComputeStream::go_until(std::function<bool()> there) {
  there_ = std::move(there);
  bell_.ring();
}

// The stream's program. It computes only as far as the group's program waits for (wanted()),
// because the program may then issue a collective that runs beside the next item.
Program ComputeStream::serve() {
  while (true) {
    while (queue_.empty() ? !closing_ : !(wanted() && front_ready())) co_await bell_.rung();
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

// Computes one item that running collectives slow down. All collectives that may run beside the
// item have been issued, or start after it. While a collective with an unknown end runs, the item's
// end may still change: the loop computes the end, waits until then, and repeats until no window
// has changed.
Program ComputeStream::compute_beside_collectives(const Item& item) {
  interference_.compute_begins(earliest_);
  double end = end_beside_collectives(item);
  while (end > executor_.now() && !interference_.settled()) {
    const std::size_t seen = interference_.changes();
    const bool changed = co_await interference_.bell().rung(end);
    if (!changed && interference_.changes() == seen) break;
    end = end_beside_collectives(item);
  }
  finish_beside_collectives(item);
  interference_.compute_ends(latest_);
}

// Returns when the last lane's device and host are done, according to the windows that are known.
// Sets `work_end_`.
double ComputeStream::end_beside_collectives(const Item& item) {
  double last = interference_.work(item.phase, device_, {earliest_, latest_}, item.work.busy,
                                   *item.factors, work_end_);
  if (host_never_binds(item)) return last;
  for (std::size_t lane = 0; lane < device_.size(); ++lane) {
    last = std::max(last, item.host.at(lane) + scaled_span(item.work, item.factors->lanes[lane]));
  }
  return last;
}

// Moves the lanes to the ends of their work. Books busy time, the share of busy time that
// interference causes, and host-bound idle time. The busy time, summed over ranks, is the
// difference between two sums of positions.
void ComputeStream::finish_beside_collectives(const Item& item) {
  const QueuedWork& work = item.work;
  const double before = position_sum_;
  const bool host_binds = !host_never_binds(item);
  if (watch_) watch_->remember(device_);
  std::swap(device_, work_end_);
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
