// The state behind an Event (engine/ranks.hpp): the times at which it happens, and the objects that
// wait for it. Private to the engine.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/frames.hpp"
#include "engine/ranks.hpp"

namespace lockstep {

// An object that an event wakes when its times become known.
class Waker {
 public:
  virtual void wake() = 0;

 protected:
  ~Waker() = default;
};

// Host clocks of all lanes. Clocks of lanes differ from each other only after a host_wait() or a
// repeat(), so all lanes share `offset`, and a copy costs little.
struct HostClock {
  std::shared_ptr<const std::vector<double>> base;  // null = 0 in every lane
  double latest_base = 0;
  double offset = 0;
  double at(std::size_t lane) const { return base ? (*base)[lane] + offset : offset; }
  double latest() const { return latest_base + offset; }
};

// A clock that shows these times, one per lane.
inline HostClock host_clock(std::vector<double> lanes) {
  HostClock clock;
  clock.latest_base = *std::max_element(lanes.begin(), lanes.end());
  clock.base = std::make_shared<const std::vector<double>>(std::move(lanes));
  return clock;
}

// A time per lane, with memory from the free lists of engine/frames.hpp.
using Lanes = std::vector<double, FrameAllocator<double>>;

// The times of an event, and the work that ends with it. The engine sets the times once and then
// calls complete(). `lanes` is empty if all lanes have the same time.
struct Event::State {
  bool known = false;
  WaitCause cause = WaitCause::communication;
  double common = 0;  // the time in every lane, unless `lanes` gives it per lane
  Lanes lanes;
  // For the end of a collective: its communicator, its number there, and when each lane was ready
  // for it. If `before` is set, `ready` does not include the wait for that event.
  const Communicator* communicator = nullptr;
  std::size_t serial = 0;
  Lanes ready;
  // The event that this event's work waited for, if that event is the end of a collective, or the
  // end of side-stream work that waited for a collective, and so on. The cause of a wait is found
  // by following this chain, which is cut after a few events.
  std::shared_ptr<const State> before;
  int depth = 0;             // length of the chain of `before`
  std::uint64_t number = 0;  // an observer's number of the work that ends here
  // Objects to wake when the event becomes known.
  std::vector<Waker*, FrameAllocator<Waker*>> waiting;

  // Sets `before` to `other`, unless the chain that begins with `other` is already long or holds no
  // collective.
  void comes_after(const std::shared_ptr<State>& other) {
    constexpr int deepest = 4;
    if (!other || (!other->communicator && !other->before) || other->depth == deepest) return;
    before = other;
    depth = other->depth + 1;
  }
  double at(std::size_t lane) const { return lanes.empty() ? common : lanes[lane]; }
  // Makes the event known and wakes all that wait for it.
  // REQUIRES: the times are set.
  void complete() {
    assert(!known);
    known = true;
    for (Waker* waker : std::exchange(waiting, {})) waker->wake();
  }
};

// Allocates a state from the free lists of engine/frames.hpp, because most messages need one.
template <typename... Given>
std::shared_ptr<Event::State> make_event_state(Given&&... given) {
  return std::allocate_shared<Event::State>(FrameAllocator<Event::State>(),
                                            std::forward<Given>(given)...);
}

// Whether `event` is known. If it is not, it will wake `waker`.
inline bool known_or_wake(const Event& event, Waker& waker) {
  if (event.known()) return true;
  event.state()->waiting.push_back(&waker);
  return false;
}

}  // namespace lockstep
