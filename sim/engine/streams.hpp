// The compute stream of a rank group (all lanes) and its side streams: in-order queues whose items
// wait for events. Private to the engine; programs use RankGroup. Without interference an item's
// times are computed when its events are known. With interference the compute stream is a program
// that keeps pace with simulated time, because a segment's end depends on the collectives that run
// beside it.
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

using Factors = std::shared_ptr<const LaneFactors>;

// A stretch of the program that is repeated `times` more (RankGroup::repeat).
struct Repetition {
  Repetition(const Mark& from, const Mark& to, int times);

  double seconds = 0;             // of all repetitions, in the lane that takes least
  std::vector<double> longer_by;  // so much longer each lane takes
  StepRecord sums;
};

// A lane's progress through exchanged work, in seconds.
struct Passage {
  double all = 0;  // from the first piece of work to the end of the last exchange
  double busy = 0;
  double slowed_by = 0;  // the part due to exchanges
  double exposed = 0;    // the lane stands still for a running exchange
  double waiting = 0;    // or for a slower lane of its group
};
// The passages of all lanes; valid as long as neither the lanes nor the exchanges change.
struct Passages {
  Phase phase = Phase::forward;
  Factors factors;
  std::vector<double> exchange_seconds;
  std::vector<Passage> lanes;
};

class ComputeStream final : public Waker {
 public:
  struct Item {
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
    Event event;     // wait: the awaited event; record: the event to complete
    const std::vector<std::vector<int>>* last_of = nullptr;  // record: of each lane; null = itself
    WorkLabel label;
    Mark* mark = nullptr;  // to fill
    std::shared_ptr<const Repetition> repetition;
    // Fields of exchanged work: the item, the seconds of each exchange, and the lanes that wait for
    // each other.
    const ExchangedWork* exchanged = nullptr;
    std::vector<double> exchange_seconds;
    const CollectiveWindows* groups = nullptr;
    double AxisSeconds::*axis = &AxisSeconds::data;
  };

  ComputeStream(std::vector<double> ranks_per_lane, Interference& interference, Executor& executor,
                Bell& program, Watch* watch);

  Factors make_factors(std::vector<double> lanes) const;
  void push(Item item);
  // Switches to paced mode: serve() then computes items up to go_until(). serve() returns when the
  // world closes and the queue is empty.
  void pace_with_time();
  void go_until(std::function<bool()> there);
  Program serve();
  void close();
  void wake() override;

  const std::vector<StepRecord>& steps() const { return steps_; }
  std::size_t lanes() const { return device_.size(); }
  double earliest() const { return earliest_; }  // no lane's position is before this

 private:
  void drain();
  bool front_ready();
  bool wanted() const { return closing_ || (there_ && !there_()); }
  void process(const Item& item);
  bool host_never_binds(const Item& item) const;
  void compute(const Item& item);
  void compute_exchanged(const Item& item);
  const std::vector<Passage>& passages_of(const Item& item);
  Program compute_beside_collectives(const Item& item);
  double end_beside_collectives(const Item& item);
  void finish_beside_collectives(const Item& item);
  void wait(const Event::State& state);
  void end_step(const HostClock& host);
  void repeat(const Repetition& repetition);
  void tell_computed(const Item& item, Interference* pace) const;
  void measure_positions();
  void book_idle(WaitCause cause, double seconds);

  std::vector<double> ranks_;  // per lane
  double all_ranks_ = 0;
  Interference& interference_;
  Executor& executor_;
  Bell& program_;
  Watch* watch_;                // null = no observer
  std::vector<double> device_;  // per lane: the stream's position
  double earliest_ = 0;         // no lane's position is before this
  // Valid in paced mode only: the last lane's position, and the sum over ranks.
  double latest_ = 0;
  double position_sum_ = 0;
  std::vector<double> work_end_;  // of the segment in progress: where each lane's work ends
  std::function<bool()> there_;   // whether the event that the program waits for has happened
  std::deque<Item, FrameAllocator<Item>> queue_;
  bool waiting_for_front_ = false;
  bool draining_ = false;
  bool paced_ = false;
  bool closing_ = false;
  Bell bell_;
  StepRecord sums_;  // of the step in progress, summed over ranks
  double step_start_ = 0;
  double repeated_ = 0;  // seconds of the step in progress that pass without simulated time
  std::vector<double> lane_start_;  // of the step in progress, per lane
  HostClock host_start_;            // where the host issued that start
  std::vector<StepRecord> steps_;
  std::map<const ExchangedWork*, Passages> passages_;
};

// An in-order queue beside the compute stream; the duration of every item is known in advance.
class SideStream final : public Waker {
 public:
  SideStream(std::string name, std::size_t lanes, WaitCause cause, Watch* watch)
      : name_(std::move(name)), cause_(cause), watch_(watch), free_(lanes, 0.0) {}
  // If `host` is null, the item waits only for `after` and the stream's earlier work. `more`:
  // additional seconds of each lane; empty = none.
  Event push(std::string_view what, double seconds, const HostClock* host, const Event& after,
             std::vector<double> more = {});
  void wake() override { drain(); }
  void move(const std::vector<double>& seconds);  // its lanes' clocks

 private:
  struct Item {
    std::string_view what;
    double seconds = 0;
    bool hosted = false;
    HostClock host;
    Event after;
    std::shared_ptr<Event::State> done;
    std::vector<double> more;

    double of(std::size_t lane) const { return more.empty() ? seconds : seconds + more[lane]; }
  };
  void drain();
  void tell(const Item& item) const;

  std::string name_;
  WaitCause cause_;
  Watch* watch_;
  std::vector<double> free_;  // per lane
  std::deque<Item> queue_;
  bool draining_ = false;
};

}  // namespace lockstep
