// An in-order queue of copies and kernels beside the compute stream, for example a copy engine or a
// data loader's process. In each lane an item begins at max(end of the item before, host, awaited
// event), and its duration is known when it is queued.
#include <algorithm>
#include <utility>

#include "engine/streams.hpp"

namespace lockstep {

Event SideStream::push(std::string_view what, double seconds, const HostClock* host,
                       const Event& after, std::vector<double> more) {
  auto done = make_event_state();
  done->cause = cause_;
  if (watch_) done->number = watch_->observer().number();
  queue_.push_back(
      {what, seconds, host != nullptr, host ? *host : HostClock{}, after, done, std::move(more)});
  // If other items are in front, the front item has already registered to be woken.
  if (queue_.size() == 1) drain();
  return Event(done);
}

// Computes items from the front of the queue, until the front item's event is not known.
void SideStream::drain() {
  if (draining_) return;
  draining_ = true;
  while (!queue_.empty() && known_or_wake(queue_.front().after, *this)) {
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    const Event::State* after = item.after.state().get();
    item.done->comes_after(item.after.state());
    for (std::size_t lane = 0; lane < free_.size(); ++lane) {
      double begin = free_[lane];
      if (item.hosted) begin = std::max(begin, item.host.at(lane));
      if (after) begin = std::max(begin, after->at(lane));
      free_[lane] = begin + item.of(lane);
    }
    if (free_.size() == 1) {
      item.done->common = free_[0];
    } else {
      item.done->lanes.assign(free_.begin(), free_.end());
    }
    if (watch_) tell(item);
    item.done->complete();
  }
  draining_ = false;
}

void SideStream::move(const std::vector<double>& seconds) {
  for (std::size_t lane = 0; lane < free_.size(); ++lane) free_[lane] += seconds[lane];
}

// Reports an item to the observer, for the watched lanes.
void SideStream::tell(const Item& item) const {
  const Event::State* after = item.after.state().get();
  for (const int lane : watch_->lanes()) {
    const double seconds = item.of(static_cast<std::size_t>(lane));
    if (seconds <= 0) continue;
    const double end = free_[static_cast<std::size_t>(lane)];
    watch_->observer().on_work({watch_->stream(lane, name_), Phase::copies, item.what,
                                end - seconds, end, item.done->number, after ? after->number : 0});
  }
}

}  // namespace lockstep
