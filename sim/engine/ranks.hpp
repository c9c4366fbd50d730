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

// A kind of busy time of the compute stream. The numbering is used as an index (Interference).
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

// The reason for waiting for a stream other than the compute stream: wait() books the gap under
// this part of the step.
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
// end of a collective or of a copy. Cheap to copy: copies share the state. A default Event lies in
// the past.
class Event {
 public:
  struct State;
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool known() const;  // whether the engine has computed the time
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// An ordered queue of collectives over all lanes, one at a time (facts 10, 11).
//
// With several groups (a partition of the lanes: HYBRID_SHARD's nodes) every group starts when its
// own last lane arrives and its own previous collective has ended, and slows down the compute of
// its own lanes alone. `uses` count the traffic of all groups together.
//
// A transfer that meets no other on its links takes latency + bytes / lone rate in every group. A
// transfer that may meet others goes over the network once, when the last group starts, because
// that group sets the pace of the job. The transfer takes the same seconds in the other groups.
//
// Made by RankGroup::add_communicator(), owned by the world.
class Communicator;

// Index of a further in-order queue per lane (copy engine, data loader, CPU optimizer) in its
// group.
using StreamId = int;

// Properties of a rank group, given to World::add_ranks().
struct RankGroupSpec {
  std::string name = "ranks";
  std::vector<double> ranks_per_lane{1};  // number of identical ranks of each lane
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

// Parts of one step in seconds, by lane. The rest of a step is the lane's own work, host and input.
struct LaneSteps {
  LaneSteps() = default;
  explicit LaneSteps(std::size_t lanes)
      : seconds(lanes), host(lanes), communicating(lanes), waiting(lanes) {}
  std::vector<double> seconds;        // end of the previous step to the end of this one
  std::vector<double> host;           // the same on the host's clock, which issues these ends
  std::vector<double> communicating;  // the compute stream stands still for a running transfer
  std::vector<double> waiting;        // or for other ranks
};

// One step on the compute streams, as a mean over ranks. The parts of `split` add up to `seconds`.
struct StepRecord {
  double seconds = 0;  // from the end of the previous step (or time 0) to the end of this one
  StepSplit split;
  // Part of the busy time that exists only because collectives ran beside it.
  double interference = 0;
  LaneSteps lanes;
};

// Clocks of the lanes at a point of the program: the host's at issue, the compute stream's when it
// reaches the point. `device` is empty until then.
struct Mark {
  std::vector<double> host, device;
  StepRecord sums;      // parts of the step in progress, summed over ranks
  int collectives = 0;  // issued so far
};

// N ranks that run the same program on the same hardware. Made by World::add_ranks(), owned by the
// world. The group's program issues work in the order in which the host would issue it.
class RankGroup {
 public:
  int lanes() const;

  // Sets the slow-down of every lane's device work that is issued after the call (1 = nominal).
  // REQUIRES: one value per lane.
  void set_factors(const std::vector<double>& factors);

  // --- host thread
  // The host is busy for `seconds`, for example with Python code.
  void host(double seconds, std::string_view name = {});
  // The host blocks until the event (item(), torch.cuda.synchronize()) and takes `resume` seconds
  // to continue.
  Program host_wait(Event event, double resume = 0);
  // An event at the host's present time. A compute stream that waits for it is host-bound.
  Event host_position();

  // --- compute stream
  // The host issues `work`, the compute stream runs it, by the rule of QueuedWork. Device parts are
  // scaled by the lane's factor. Idle time in between is host_bound.
  void compute(Phase phase, const QueuedWork& work, std::string_view name = {});
  // Computes work whose parts are reported to an observer one by one.
  // REQUIRES: `work` outlives the run.
  void compute(Phase phase, const NamedWork& work);
  // Computes layers with exchanges between them; `work` includes the host's time to issue the
  // exchanges.
  // REQUIRES: the lanes of each group begin together, no other collective runs beside the work, and
  // there is no observer.
  void compute(Phase phase, const Communicator& communicator, const ExchangedWork& work);
  // The compute stream waits; the host does not. The gap is booked by its cause: a running transfer
  // is exposed communication, a late rank waiting, a late issue of the lane's own host host-bound,
  // and another stream its WaitCause.
  void wait(const Event& event);
  // The compute stream's present position. With `of`, a list of lanes for each lane, an entry is
  // the latest position among the listed lanes.
  // REQUIRES: `of` outlives the run.
  Event record(const std::vector<std::vector<int>>& of = {});
  // An event at this time in every lane; a compute stream that waits for it books the gap as
  // `cause`.
  static Event happened(double time, WaitCause cause);
  // Completes `event` when the compute stream reaches this point and the host has issued it.
  void post(const Event& event);

  // --- communication
  // Makes a communicator. `groups` is a partition of the lanes; empty = all lanes together. Exposed
  // communication of its collectives is booked on `axis` of the mesh.
  Communicator& add_communicator(const std::string& name, std::vector<std::vector<int>> groups = {},
                                 double AxisSeconds::*axis = &AxisSeconds::data);
  // Queues one collective and returns its end. A lane is ready at max(host, after). The collective
  // runs when all lanes of the group are ready and the group's earlier ones have ended. The caller
  // accounts for the host's time to issue it by a call of host() before.
  Event start(Communicator& communicator, const TransferSpec& spec, const Event& after = {});
  // Queues one message of a channel: lanes are ready at max(host, after, posted), and its end
  // completes `done`.
  void start(Communicator& communicator, const TransferSpec& spec, const Event& after,
             const Event& posted, const Event& done);
  // --- other streams
  // Adds a stream beside the compute stream. A compute stream that waits for it books the gap as
  // `cause`.
  StreamId add_stream(const std::string& name, WaitCause cause = WaitCause::communication);
  // Queues `seconds` of work behind the stream's earlier work. The work begins at max(stream, host,
  // after). With `after_host` false the host's clock does not matter (work that a background thread
  // issues). `more` are additional seconds of each lane; empty = none.
  Event enqueue(StreamId stream, double seconds, const Event& after = {}, bool after_host = true,
                std::string_view name = {}, std::vector<double> more = {});
  // Additional seconds of lanes whose device is not the platform's, for enqueue(); empty = all
  // devices take equally long.
  std::vector<double> elsewhere(const QueuedWork& work) const;
  // Queues a copy over links: latency + bytes / lone rate per lane, counted as traffic on `uses`.
  // Copies do not compete for links.
  Event copy(StreamId stream, const TransferSpec& spec, const Event& after = {});

  // --- stretches of the program that repeat themselves, in runs without an observer
  // Keeps the lanes' clocks at this point of the program. Returns the mark's number; the latest
  // eight marks, at least, are kept.
  int mark();
  Program await_mark(int number);  // until the compute stream has reached the mark
  const Mark& marked(int number) const;
  // Repeats the stretch between two marks `times` more: steps and links count it, and no simulated
  // time passes. The reference is the lane whose compute stream advances least in the stretch. Any
  // other clock is moved by the difference between its own advance and that one. Returns the moves
  // of the host's clocks, in seconds per lane.
  // REQUIRES: the compute stream has reached both marks, and the program behaves in the same way in
  // every repetition.
  std::vector<double> repeat(int from, int to, int times);
  // Apply the moves that repeat() returned to other clocks that follow the host's: a stream, or a
  // known event.
  void move(StreamId stream, const std::vector<double>& seconds);
  static Event moved(const Event& event, const std::vector<double>& seconds);

  // --- steps
  // A step ends at the compute stream's present position.
  void end_step();
  Program await_step(int index);                 // until step `index` (0 = first) is computed
  const std::vector<StepRecord>& steps() const;  // all that are computed so far

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
