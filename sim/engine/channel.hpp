// Messages between two rank groups, as between neighboring stages of a pipeline: lane i of the
// sender to lane i of the receiver, one message after the other. Get a channel from
// World::add_channel() and call send() and receive() in the two groups' programs. A message starts
// when it is sent, the receiver has posted its receive, and the message before it has arrived
// (NCCL's point-to-point operations need both sides).
#pragma once

#include <cstddef>
#include <deque>

#include "engine/ranks.hpp"

namespace lockstep {

// One direction between two groups. The world owns it, and both groups must outlive it.
class Channel {
 public:
  Channel(RankGroup& from, RankGroup& to, Communicator& carrier)
      : from_(from), to_(to), carrier_(carrier) {}

  // Both return the arrival of a message: of the sender's next message, and of the receiver's. The
  // message leaves when `after` has happened and the sender's host has issued it.
  Event send(const TransferSpec& spec, const Event& after);
  Event receive();

 private:
  // Both sides of one message; either may come first.
  struct Message {
    Event posted, arrived;
  };
  // The message of this number, created by the side that comes first.
  Message& message(std::size_t number);
  // Drops messages that both sides have asked for.
  void drop_matched();

  RankGroup& from_;
  RankGroup& to_;
  Communicator& carrier_;
  std::deque<Message> messages_;
  // Numbers of messages: the first that is kept, and the next of either side.
  std::size_t first_ = 0, sent_ = 0, received_ = 0;
};

}  // namespace lockstep
