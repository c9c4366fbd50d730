// A communicator's queue of collectives. If neither other traffic nor compute can slow a collective
// down, its times are computed as soon as everything before it is known; otherwise a coroutine
// (serve()) carries it, so that it takes simulated time. Private to the engine; strategies use
// RankGroup::start().
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/event_state.hpp"
#include "engine/gap.hpp"
#include "engine/interference.hpp"
#include "engine/network.hpp"
#include "engine/watch.hpp"
#include "engine/windows.hpp"

namespace lockstep {

// engine/ranks.hpp explains lanes, groups and the rules. A collective passes through these states:
//   queued     start() was called; some event before it is not known yet
//   computed   its start is known, and its end follows from its time without other traffic
//              (advance())
//   carried    its start is known, and it runs through the network in simulated time (serve())
//   finished   its windows are complete, and everything that waits for its end is woken (finish())
class Communicator final : public Waker {
 public:
  // `groups` is a partition of the lanes; empty = one group. `carried` counts the bytes and the
  // busy seconds of the rank group's transfers on each link. `interference` reads the windows
  // (windows.hpp) of the collectives.
  Communicator(std::string name, double AxisSeconds::*axis, int lanes,
               const std::vector<std::vector<int>>& groups, Interference& interference,
               Network& network, Links& carried, Watch* watch);

  const std::string& name() const { return name_; }
  double AxisSeconds::*axis() const { return axis_; }
  const CollectiveWindows& windows() const { return windows_; }
  // Queues a collective. A lane is ready when its host has issued the collective, `after` has
  // happened, and `issued` (for a message: the receiver has posted it) has happened. The
  // collective's end completes `done`, or a new event if `done` is null. Returns that event.
  Event start(const TransferSpec& spec, const HostClock& host, const Event& after,
              const Event& issued = {}, std::shared_ptr<Event::State> done = nullptr);
  // Declares that the communicator carries messages to another rank group, lane by lane. Idle time
  // before a message starts is then booked as bubble, and a message's window is stored until both
  // groups have passed it.
  void sends_to(const class ComputeStream& receiver) { receiver_ = &receiver; }
  // The communicator's program, which carries transfers in simulated time. Returns when the world
  // closes and the queue is empty.
  Program serve();
  void close();
  void wake() override { advance(); }

  // Divides, by cause, the idle times between the lanes' positions (the times up to which they are
  // booked) and the collective whose end is `state`. Adds the parts to each lane's step, moves
  // earlier positions to this end, and returns the sum over ranks.
  Gap divide(const Event::State& state, std::span<const double> ranks, std::span<double> positions,
             LaneSteps& steps) const;
  // Divides one lane's idle time, which begins at `from`, and calls tell(WaitCause, start, end) for
  // each part, in the order of time.
  template <class Tell>
  void idle_before(const Event::State& state, std::size_t lane, double from, Tell&& tell) const;
  // Drops the windows of collectives that ended by `time` in every group, except the latest
  // collective. Afterwards no position that is passed to divide() may lie before `time`.
  void forget(double time);
  // Calls forget() only if at least 64 collectives are stored, and at least twice as many as after
  // the last forget().
  void forget_some(double time);

 private:
  // A collective from start() to finish().
  struct Operation {
    TransferSpec spec;
    HostClock host;
    Event after, issued;  // both must have happened
    std::shared_ptr<Event::State> done;
    Observer::Number launch = 0;  // the observer's number of the host's launch
    std::size_t last = 0;         // number of the group that starts last
    double end = 0;               // end of the transfer in that group
    // Total compute seconds at the last call of fallen_behind(); at first, at the transfer's start.
    double computed = 0;
  };
  static bool ready(const Operation& operation) {
    return operation.after.known() && operation.issued.known();
  }
  void advance();
  bool takes_lone_seconds(const TransferSpec& spec) const;
  void find_ready(Operation& operation) const;
  static double available(const Event::State& state, std::size_t lane);
  static const Event::State* collective_before(const Event::State& state);
  void find_start(Operation& operation);
  Program carry(Operation& operation);
  double fallen_behind(Operation& operation, double now) const;
  void finish(Operation& operation);
  void tell(const Operation& operation) const;

  std::string name_;
  double AxisSeconds::*axis_;
  std::size_t lanes_;
  Interference& interference_;
  Network& network_;
  Links& links_;  // ledger of the rank group's traffic
  Watch* watch_;  // null = no observer
  std::deque<Operation, FrameAllocator<Operation>> queue_;
  std::optional<Operation> carried_;  // the operation that serve() carries
  CollectiveWindows windows_;
  std::size_t forgets_at_ = 64;  // number of stored collectives at which forget_some() forgets
  bool advancing_ = false;
  Bell bell_;
  bool closing_ = false;
  // The other group's stream if the communicator carries messages (sends_to()); else null.
  const class ComputeStream* receiver_ = nullptr;
};

// The time from which the lane can take part in the collective whose end is `state`: the lane is
// ready, and the event `before`, if it is set, has happened.
inline double Communicator::available(const Event::State& state, std::size_t lane) {
  const double ready = state.ready[lane];
  return state.before ? std::max(ready, state.before->at(lane)) : ready;
}

// The collective of another communicator that must end before the collective whose end is `state`;
// null = none.
inline const Event::State* Communicator::collective_before(const Event::State& state) {
  const Event::State* before = state.before.get();
  while (before && !before->communicator) before = before->before.get();
  return before && before->communicator != state.communicator ? before : nullptr;
}

// Visits the group's windows, from the first one that ends after `from` to the awaited one. If the
// communicator carries messages (sends_to()), all idle time before a window is bubble. Otherwise it
// has up to three parts, in this order: the wait for the collective of another communicator, which
// that communicator divides; the wait for the lane's own host; the wait for other ranks. During a
// window the lane waits for communication.
template <class Tell>
void Communicator::idle_before(const Event::State& state, std::size_t lane, double from,
                               Tell&& tell) const {
  // A forgotten window ended before any lane's position.
  if (windows_.forgotten(state.serial)) return;
  const std::size_t group = windows_.group_of(lane);
  std::size_t serial = state.serial;
  while (serial > windows_.first() && windows_.at(serial - 1, group).end > from) --serial;
  const auto idle = [&](WaitCause cause, double until) {
    if (until > from) tell(cause, from, until);
    from = std::max(from, until);
  };
  for (; serial <= state.serial; ++serial) {
    const Window& next = windows_.at(serial, group);
    if (receiver_) {
      idle(WaitCause::bubble, next.start);
    } else if (next.start > from) {
      const Event::State& ready = *windows_.collective(serial).state;
      if (const Event::State* before = collective_before(ready)) {
        before->communicator->idle_before(*before, lane, from, tell);
        from = std::max(from, before->at(lane));
      }
      idle(WaitCause::host_bound, std::min(available(ready, lane), next.start));
      idle(WaitCause::waiting, next.start);
    }
    idle(WaitCause::communication, next.end);
  }
}

}  // namespace lockstep
