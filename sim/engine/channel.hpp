// Messages between two rank groups, as between neighbouring stages of a pipeline: lane i of the
// sender to lane i of the receiver, one message after the other. Get a channel from
// World::add_channel() and call send() and receive() in the two groups' programs. A message starts
// when it is sent, the receiver has posted its receive, and the message before it has arrived.
#pragma once

#include <cstddef>
#include <deque>

#include "engine/ranks.hpp"

namespace lockstep {

class Channel {
 public:
  Channel(RankGroup& from, RankGroup& to, Communicator& carrier)
      : from_(from), to_(to), carrier_(carrier) {}

  // Both return the arrival: of the sender's next message, and of the receiver's. `after`: of the
  // sender; the message leaves when its host has come this far as well.
  Event send(const TransferSpec& spec, const Event& after);
  Event receive();

 private:
  // Both sides of one message; either may come first.
  struct Message {
    Event posted, arrived;
  };
  Message& message(std::size_t number);
  void drop_matched();

  RankGroup& from_;
  RankGroup& to_;
  Communicator& carrier_;
  std::deque<Message> messages_;
  std::size_t first_ = 0, sent_ = 0, received_ = 0;  // numbers of messages
};

}  // namespace lockstep
