// Matches the n-th send with the n-th receive. A message is a transfer of a communicator whose
// groups are single lanes. The message starts when the sender is ready and the event `posted`,
// which the receiver's compute stream completes, has happened.
#include "engine/channel.hpp"

#include <algorithm>

#include "engine/event_state.hpp"

namespace lockstep {

Event Channel::send(const TransferSpec& spec, const Event& after) {
  const Message matched = message(sent_++);
  from_.start(carrier_, spec, after, matched.posted, matched.arrived);
  drop_matched();
  return matched.arrived;
}

Event Channel::receive() {
  const Message matched = message(received_++);
  to_.post(matched.posted);
  drop_matched();
  return matched.arrived;
}

Channel::Message& Channel::message(std::size_t number) {
  while (first_ + messages_.size() <= number) {
    messages_.push_back({Event(make_event_state()), Event(make_event_state())});
  }
  return messages_[number - first_];
}

void Channel::drop_matched() {
  for (; first_ < std::min(sent_, received_); ++first_) messages_.pop_front();
}

}  // namespace lockstep
