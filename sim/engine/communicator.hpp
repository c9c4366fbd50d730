// A communicator's queue of collectives. A collective is computed as soon as everything before it
// is known, or carried by a program if others may share its links. Private to the engine;
// strategies use RankGroup::start().
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

// See RankGroup for the meaning. A collective goes through these states:
//   queued     start() was called; some event before it is not known yet
//   computed   its start is known, and its end follows from its lone time (advance())
//   carried    its start is known, and it runs through the network in simulated time (serve())
//   finished   its windows are complete, and its end is known to all that wait (finish())
class Communicator final : public Waker {
 public:
  // `groups`: a partition of the lanes; empty = one group. `carried` is the rank group's own ledger
  // of link traffic. `interference` gets the windows of the collectives.
  Communicator(std::string name, double AxisSeconds::*axis, int lanes,
               const std::vector<std::vector<int>>& groups, Interference& interference,
               Network& network, Links& carried, Watch* watch);

  const std::string& name() const { return name_; }
  double AxisSeconds::*axis() const { return axis_; }
  const CollectiveWindows& windows() const { return windows_; }
  // Queues a collective. A lane is ready when its host has issued the collective and both events
  // have happened. The end completes `done`, or a new event if `done` is null.
  Event start(const TransferSpec& spec, const HostClock& host, const Event& after,
              const Event& issued = {}, std::shared_ptr<Event::State> done = nullptr);
  // Declares that the communicator carries messages to another rank group, lane by lane: time
  // before a message starts is bubble, and its window is kept until both groups are past it.
  void sends_to(const class ComputeStream& receiver) { receiver_ = &receiver; }
  // The communicator's program, which carries transfers. Returns when the world closes and the
  // queue is empty.
  Program serve();
  void close();
  void wake() override { advance(); }

  // Divides the gaps between the lanes' positions and the end of the collective behind `state` by
  // cause. Adds the parts to each lane's step, moves the positions to the end, and returns the sum
  // over ranks.
  Gap divide(const Event::State& state, std::span<const double> ranks, std::span<double> positions,
             LaneSteps& steps) const;
  // Divides one lane's gap, which begins at `from`, and calls tell(WaitCause, start, end) for each
  // piece, in the order of time.
  template <class Tell>
  void idle_before(const Event::State& state, std::size_t lane, double from, Tell&& tell) const;
  // Drops windows that ended before `time` in every group. No later call to divide() may pass a
  // position before `time`.
  void forget(double time);
  // Calls forget() only if the number of windows has doubled since the last forget().
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
    double end = 0;               // end of that group's transfer
    // Seconds of compute until the transfer last caught up (fallen_behind()).
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
  Links& links_;  // counts the link requests of the rank group's transfers
  Watch* watch_;  // null = no observer
  std::deque<Operation, FrameAllocator<Operation>> queue_;
  std::optional<Operation> carried_;  // the operation that serve() works on
  CollectiveWindows windows_;
  std::size_t forgets_at_ = 64;  // number of windows at which forget_some() works
  bool advancing_ = false;
  Bell bell_;
  bool closing_ = false;
  // The other rank group's stream if this communicator carries messages (sends_to()); else null.
  const class ComputeStream* receiver_ = nullptr;
};

// The time at which the lane may take part: the lane is ready, and the collective of another
// communicator that it follows is over.
inline double Communicator::available(const Event::State& state, std::size_t lane) {
  const double ready = state.ready[lane];
  return state.before ? std::max(ready, state.before->at(lane)) : ready;
}

// The collective of another communicator that precedes the collective behind `state`; null = none.
inline const Event::State* Communicator::collective_before(const Event::State& state) {
  const Event::State* before = state.before.get();
  while (before && !before->communicator) before = before->before.get();
  return before && before->communicator != state.communicator ? before : nullptr;
}

// Walks through the group's windows from the first that ends after `from` to the awaited one. The
// idle time before a window is divided in this order: the collective that it follows, by its own
// causes; the lane's own host; the other ranks. Inside of a window the lane waits for
// communication.
template <class Tell>
void Communicator::idle_before(const Event::State& state, std::size_t lane, double from,
                               Tell&& tell) const {
  // Forgotten windows were over before any lane's position.
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
