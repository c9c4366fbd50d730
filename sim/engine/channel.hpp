// Messages between two rank groups, for example between neighbouring stages of a pipeline. Lane i
// of the sender sends to lane i of the receiver, one message after the other. World::add_channel()
// makes a channel; the programs of the two groups call send() and receive(). A message starts when
// it has been sent, the receiver has posted its receive, and the message before it has arrived
// (NCCL's point-to-point operations need both sides).
#pragma once

#include <cstddef>
#include <deque>

#include "engine/ranks.hpp"

namespace lockstep {

// One direction between two groups. The world owns the channel, and both groups must outlive it.
class Channel {
 public:
  Channel(RankGroup& from, RankGroup& to, Communicator& carrier)
      : from_(from), to_(to), carrier_(carrier) {}

  // send() returns the arrival of the sender's next message, and receive() that of the receiver's
  // next message. A message has been sent when `after` has happened and the sender's host has
  // issued it.
  Event send(const TransferSpec& spec, const Event& after);
  Event receive();

 private:
  // Both sides of one message; either may come first.
  struct Message {
    Event posted, arrived;
  };
  // The message of this number, created by the side that comes first.
  Message& message(std::size_t number);
  // Drops messages for which both send() and receive() were called.
  void drop_matched();

  RankGroup& from_;
  RankGroup& to_;
  Communicator& carrier_;
  std::deque<Message> messages_;
  // Numbers of messages: the oldest that is stored, and the next of either side.
  std::size_t first_ = 0, sent_ = 0, received_ = 0;
};

}  // namespace lockstep
