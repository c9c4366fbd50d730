// Ranks as one program with many clocks. A RankGroup is N ranks that run the same program on the
// same hardware; each "lane" has a host clock and a compute-stream clock, and stands for one rank
// or for several identical ones. The program (direct style, started by World::spawn) issues work in
// host order; streams and communicators carry it out in their own time, as a GPU does:
//
//   ranks.compute(Phase::forward, work);                   // host issues, compute stream runs
//   Event ready = ranks.record();                          // position in the compute stream
//   Event done = ranks.start(communicator, spec, ready);   // starts when every lane is ready
//   ranks.compute(Phase::backward, more);                  // overlaps
//   ranks.wait(done);                                      // compute stream waits, host does not
//   ranks.end_step();
//   co_await ranks.await_step(0);
//
// The program waits in simulated time only where it awaits host_wait() or await_step(); so lanes'
// clocks run ahead of the world's and everything between two collectives is plain arithmetic. Work
// that only becomes known after its start time has passed is started late but credited, so that
// uncontended times are exact.
//
// Names are for an observer (engine/observer.hpp): texts that live as long as the simulation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "costs/named_work.hpp"
#include "engine/exchanged_work.hpp"
#include "engine/program.hpp"
#include "engine/transfer.hpp"
#include "results/record.hpp"

namespace lockstep {

enum class Phase { forward, backward, optimizer, copies };
// The field of StepSplit for the phase of busy device time.
inline double& busy_part(StepSplit& split, Phase phase) {
  switch (phase) {
    case Phase::forward:
      return split.forward;
    case Phase::backward:
      return split.backward;
    case Phase::optimizer:
      return split.optimizer;
    case Phase::copies:
      break;
  }
  return split.copies;
}

// Resources that active collectives take from compute: sums of TransferSpec's fields, and the
// product of its speeds.
struct Occupancy {
  double channels = 0;
  double hbm_bytes_per_second = 0;
  double cores = 0;
  double compute_speed = 1;
  bool operator==(const Occupancy&) const = default;
};

// Why a stream other than the compute stream is waited for: where wait() books the gap.
enum class WaitCause {
  communication,
  data_loading,
  waiting,
  copies,
  host_bound,
  optimizer,
  bubble
};

// A point in time per lane, known once the work before it is done: a recorded stream position, the
// end of a collective or of a copy. Cheap to copy. A default Event lies in the past.
class Event {
 public:
  struct State;
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool known() const;  // has the engine worked it out yet?
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// An ordered queue of collectives over all lanes, one at a time (facts 10, 11). With several groups
// (a partition of the lanes: HYBRID_SHARD's nodes) every group starts when its own last lane
// arrives and its own previous collective has ended, and slows down the compute of its own lanes
// alone. A transfer that meets no other on its links takes latency + bytes / lone rate in every
// group. One that may meet others goes over the network once, when the last group starts, which
// sets the pace of the job, and takes the same seconds in the other groups. `uses` count the
// traffic of all groups together. Made by RankGroup::add_communicator, owned by the world.
class Communicator;

// A further in-order queue per lane (copy engines, data loader, CPU optimizer). Index into the
// group.
using StreamId = int;

struct RankGroupSpec {
  std::string name = "ranks";
  std::vector<double> ranks_per_lane{1};  // how many identical ranks each lane stands for
  // The lane that represents each rank, for an observer; empty = lanes in the order of ranks.
  std::vector<int> lane_of_rank{};
  // The job's device of each lane (DeviceSlowdown::device); empty = all lanes run on the platform's
  // device.
  std::vector<int> device_of_lane{};
  // Factor (>= 1) on the time of work of this phase while collectives run beside it. The argument
  // sums their channels, memory traffic and busy CPU cores. Empty = no interference (facts 112,
  // 113).
  std::function<double(Phase phase, const Occupancy&)> slowdown{};
  // CPU ranks: one thread both issues and computes. Dispatch is part of the work's device time;
  // host times are ignored, host_wait() blocks the compute stream, and a collective is issued when
  // the compute stream reaches it.
  bool one_thread = false;
};

// The lanes' steps, in seconds of each part; the rest of a step is the lane's own work, host and
// input.
struct LaneSteps {
  LaneSteps() = default;
  explicit LaneSteps(std::size_t lanes)
      : seconds(lanes), host(lanes), communicating(lanes), waiting(lanes) {}
  std::vector<double> seconds;        // from the end of its previous step to the end of this one
  std::vector<double> host;           // the same on the host's clock, which issues these ends
  std::vector<double> communicating;  // it stood still for a running transfer,
  std::vector<double> waiting;        // or for other ranks
};

// One step as the compute streams lived it, mean over ranks. The parts of split add up to
// `seconds`.
struct StepRecord {
  double seconds = 0;  // from the end of the previous step (or time 0) to the end of this one
  StepSplit split;
  double interference =
      0;  // part of the busy time that exists only because collectives ran beside it
  LaneSteps lanes;
};

// Lanes' clocks at a point of the program: the host's at issue, the compute stream's when it
// reaches the point.
struct Mark {
  std::vector<double> host, device;
  StepRecord sums;      // of the step in progress, over ranks
  int collectives = 0;  // issued so far
};

class RankGroup {
 public:
  int lanes() const;

  // Slow-down of every lane's device work that is issued after the call (1 = nominal); one value
  // per lane.
  void set_factors(const std::vector<double>& factors);

  // --- host thread
  void host(double seconds, std::string_view name = {});  // the host is busy
  // The host blocks until the event (item(), torch.cuda.synchronize()) and takes `resume` seconds
  // to go on.
  Program host_wait(Event event, double resume = 0);
  // An event at the host's present time. A compute stream that waits for it is host-bound.
  Event host_position();

  // --- compute stream
  // The host issues `work`, the compute stream runs it, by the rule of QueuedWork. Device parts are
  // scaled by the lane's factor. Idle time in between is host_bound.
  void compute(Phase phase, const QueuedWork& work, std::string_view name = {});
  // The same, with parts that are reported to an observer one by one; `work` must outlive the run.
  void compute(Phase phase, const NamedWork& work);
  // Layers with exchanges between them, for lanes of each group that begin together. `work`
  // includes the host's time to issue the exchanges. Nothing else may run beside them, and there
  // must be no observer.
  void compute(Phase phase, const Communicator& communicator, const ExchangedWork& work);
  void wait(const Event& event);  // the compute stream waits; the gap is booked by what is waited
                                  // for: running transfers exposed_communication, late ranks
                                  // waiting, own late issue host_bound, streams by their WaitCause
  // The compute stream's present position. With `of` (a list of lanes for each lane; must outlive
  // the run), the latest position among those lanes.
  Event record(const std::vector<std::vector<int>>& of = {});
  // An event at this time in every lane; a compute stream that waits for it books the gap as
  // `cause`.
  static Event happened(double time, WaitCause cause);
  // Completes `event` when the compute stream reaches this point and the host has issued it.
  void post(const Event& event);

  // --- communication. `groups`: a partition of the lanes; empty = all lanes together. `axis`: where the step
  // books what is waited for.
  Communicator& add_communicator(const std::string& name, std::vector<std::vector<int>> groups = {},
                                 double AxisSeconds::*axis = &AxisSeconds::data);
  // Queues one collective. Ready per lane at max(host, after); runs when all lanes of the group are
  // ready and the group's earlier ones have ended. Host time to issue it is the caller's: host()
  // before.
  Event start(Communicator& communicator, const TransferSpec& spec, const Event& after = {});
  // The same, if `posted` has happened as well; the end of the transfer completes `done`.
  void start(Communicator& communicator, const TransferSpec& spec, const Event& after,
             const Event& posted, const Event& done);
  // --- other streams
  StreamId add_stream(const std::string& name, WaitCause cause = WaitCause::communication);
  // Queues `seconds` of work behind the stream's earlier work; begins at max(stream, host, after).
  // With `after_host` false the host's clock does not matter (work that a background thread
  // issues). `more`: additional seconds of each lane.
  Event enqueue(StreamId stream, double seconds, const Event& after = {}, bool after_host = true,
                std::string_view name = {}, std::vector<double> more = {});
  // Additional seconds of lanes whose device is not the platform's; empty = all devices take
  // equally long.
  std::vector<double> elsewhere(const QueuedWork& work) const;
  // The same for a copy over links: latency + bytes / lone rate per lane, counted as traffic on
  // `uses`.
  Event copy(StreamId stream, const TransferSpec& spec, const Event& after = {});

  // --- stretches of the program that repeat themselves, where nobody observes
  int mark();                      // its number; the latest few are kept
  Program await_mark(int number);  // until the compute stream has got there
  const Mark& marked(int number) const;
  // Repeats the stretch between two marks `times` more: steps and links count it, and no simulated
  // time passes. A clock that advances less or more in the stretch than the slowest lane's compute
  // stream is moved by the difference. Returns the moves of the host's clocks.
  std::vector<double> repeat(int from, int to, int times);
  // Applies these moves to whatever follows the host's clock: a stream, or a known event.
  void move(StreamId stream, const std::vector<double>& seconds);
  static Event moved(const Event& event, const std::vector<double>& seconds);

  // --- steps
  void end_step();                // a step ends at the compute stream's present position
  Program await_step(int index);  // until step `index` (0 = first) is worked out
  const std::vector<StepRecord>& steps() const;  // worked out so far

  struct Impl;
  explicit RankGroup(std::unique_ptr<Impl> impl);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
