// The compute stream of a rank group (all lanes) and its side streams: in-order queues whose items
// wait for events. Private to the engine; strategies use RankGroup.
//
// Without interference, an item's times are computed as soon as its events are known. With
// interference, the compute stream is a program that advances with simulated time
// (paced_stream.cpp), because the end of an item depends on the collectives that run beside it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/communicator.hpp"
#include "engine/event_state.hpp"
#include "engine/interference.hpp"
#include "engine/range.hpp"
#include "engine/watch.hpp"

namespace lockstep {

// The lanes' slow-down for some items. Shared, because most items of a step have the same factors.
using Factors = std::shared_ptr<const LaneFactors>;

// A stretch of the program that counts `times` more (RankGroup::repeat()). All fields are sums over
// all repetitions.
struct Repetition {
  Repetition(const Mark& from, const Mark& to, int times);

  double seconds = 0;             // of all repetitions, in the lane that takes least
  std::vector<double> longer_by;  // by lane: seconds beyond `seconds`
  StepRecord sums;                // parts of the step, summed over ranks
};

// The time that a lane needs for exchanged work, in seconds.
struct Passage {
  double all = 0;        // from the first layer to the end of the last exchange
  double busy = 0;       // the device computes
  double slowed_by = 0;  // the part of `busy` that exists only because exchanges run beside it
  double exposed = 0;    // the lane stands still for a running exchange
  double waiting = 0;    // the lane stands still for a slower lane of its group
};
// The passages of all lanes through one ExchangedWork. They are stored because every micro-batch
// repeats them, and are valid as long as neither the lanes nor the exchanges change.
struct Passages {
  Phase phase = Phase::forward;
  Factors factors;
  std::vector<double> exchange_seconds;
  std::vector<Passage> lanes;
};

// The queue of work of all lanes' compute streams.
class ComputeStream final : public Waker {
 public:
  struct Item {
    // compute and exchanged take time; wait moves lanes to an event; record and post complete an
    // event; end_step closes a StepRecord; RankGroup explains mark and repeat.
    enum class Kind {
      compute,
      exchanged,
      wait,
      record,
      post,
      end_step,
      mark,
      repeat
    } kind = Kind::compute;
    Phase phase = Phase::forward;
    QueuedWork work;
    Factors factors;
    HostClock host;  // when the host begins to issue the item
    Event event;     // wait: the awaited event; record, post: the event to complete
    // For record: by lane, the lanes whose latest position counts; null = the lane's own position.
    const std::vector<std::vector<int>>* last_of = nullptr;
    WorkLabel label;
    Mark* mark = nullptr;  // mark: the clocks to fill
    std::shared_ptr<const Repetition> repetition;
    // For exchanged: the work, the seconds of each exchange, and the groups of lanes that wait for
    // each other.
    const ExchangedWork* exchanged = nullptr;
    std::vector<double> exchange_seconds;
    const CollectiveWindows* groups = nullptr;
    double AxisSeconds::*axis = &AxisSeconds::data;
  };

  // `program` is the bell of the group's program. The stream rings it when a step or a mark is
  // computed.
  ComputeStream(std::vector<double> ranks_per_lane, Interference& interference, Executor& executor,
                Bell& program, Watch* watch);

  Factors make_factors(std::vector<double> lanes) const;
  // Queues an item. Without interference, its times are computed at once, if all earlier items are
  // computed and the event that it waits for is known.
  void push(Item item);
  // pace_with_time() switches to paced mode. serve() then computes items only while a condition
  // given to go_until() is false, or after close(). It returns when the world has closed and the
  // queue is empty.
  void pace_with_time();
  void go_until(std::function<bool()> there);
  Program serve();
  void close();
  void wake() override;

  const std::vector<StepRecord>& steps() const { return steps_; }
  std::size_t lanes() const { return device_.size(); }
  double earliest() const { return earliest_; }  // no lane's position is before this

 private:
  // Computes items from the front of the queue, until front_ready() is false.
  void drain();
  // False if the front item waits for an event that is not known. The event then wakes the stream.
  bool front_ready();
  // Paced mode: whether the program waits for something that is not computed yet.
  bool wanted() const { return closing_ || (there_ && !there_()); }
  void process(const Item& item);
  bool host_never_binds(const Item& item) const;
  void compute(const Item& item);
  void compute_exchanged(const Item& item);
  // The lanes' passages through an item's exchanged work.
  const std::vector<Passage>& passages_of(const Item& item);
  // Paced mode: computes one item that collectives may slow down (paced_stream.cpp).
  Program compute_beside_collectives(const Item& item);
  double end_beside_collectives(const Item& item);
  void finish_beside_collectives(const Item& item);
  void wait(const Event::State& state);
  void end_step(const HostClock& host);
  void repeat(const Repetition& repetition);
  void tell_computed(const Item& item, Interference* pace) const;
  // Sets earliest_, latest_ and position_sum_ after positions have changed.
  void measure_positions();
  // Adds idle seconds, summed over ranks, to the step's part for the cause.
  void book_idle(WaitCause cause, double seconds);

  std::vector<double> ranks_;  // ranks of each lane
  double all_ranks_ = 0;       // their sum
  Interference& interference_;
  Executor& executor_;
  Bell& program_;
  Watch* watch_;                // null = no observer
  std::vector<double> device_;  // by lane: the time up to which the stream has computed
  double earliest_ = 0;         // no lane's position is before this
  // Valid in paced mode only: the last lane's position, and the sum over ranks.
  double latest_ = 0;
  double position_sum_ = 0;
  std::vector<double> work_end_;  // by lane: the end of the work that is computed now
  // The condition that the program waits for; empty = the program does not wait.
  std::function<bool()> there_;
  std::deque<Item, FrameAllocator<Item>> queue_;
  bool waiting_for_front_ = false;  // the front item's event will wake the stream
  bool draining_ = false;           // drain() is on the call stack
  bool paced_ = false;
  bool closing_ = false;
  Bell bell_;
  StepRecord sums_;        // of the step in progress, summed over ranks
  double step_start_ = 0;  // mean position over ranks at the step's start
  double repeated_ = 0;    // seconds of the step that passed without simulated time (repeat())
  // Start of the step in progress: positions of the lanes, and the host's clock when it issued the
  // end of the previous step.
  std::vector<double> lane_start_;
  HostClock host_start_;
  std::vector<StepRecord> steps_;
  std::map<const ExchangedWork*, Passages> passages_;
};

// An in-order queue beside the compute stream. The duration of every item is known when it is
// queued.
class SideStream final : public Waker {
 public:
  SideStream(std::string name, std::size_t lanes, WaitCause cause, Watch* watch)
      : name_(std::move(name)), cause_(cause), watch_(watch), free_(lanes, 0.0) {}
  // Queues an item and returns its end. If `host` is null, the item waits only for `after` and for
  // the stream's earlier items. `more` are additional seconds by lane; empty = none.
  Event push(std::string_view what, double seconds, const HostClock* host, const Event& after,
             std::vector<double> more = {});
  void wake() override { drain(); }
  // Moves the clocks of its lanes.
  void move(const std::vector<double>& seconds);

 private:
  struct Item {
    std::string_view what;
    double seconds = 0;   // in the lane that takes least
    bool hosted = false;  // whether it waits for `host`
    HostClock host;       // when the host begins to issue the item
    Event after;
    std::shared_ptr<Event::State> done;
    std::vector<double> more;

    // Seconds that the item takes in a lane.
    double of(std::size_t lane) const { return more.empty() ? seconds : seconds + more[lane]; }
  };
  void drain();
  void tell(const Item& item) const;

  std::string name_;
  WaitCause cause_;
  Watch* watch_;
  std::vector<double> free_;  // by lane: the end of the latest item
  std::deque<Item> queue_;
  bool draining_ = false;
};

}  // namespace lockstep
