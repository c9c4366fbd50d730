// Ranks as one program with many clocks. A RankGroup is N ranks that run the same program on the
// same hardware, divided into lanes. A lane is one rank or several identical ranks; it has a host
// clock and a compute-stream clock. The program is a coroutine that World::spawn() starts. It
// issues work in the order of the host; streams and communicators execute the work in their own
// time, as a GPU does:
//
//   ranks.compute(Phase::forward, work);                   // host issues, compute stream runs
//   Event ready = ranks.record();                          // position in the compute stream
//   Event done = ranks.start(communicator, spec, ready);   // starts when every lane is ready
//   ranks.compute(Phase::backward, more);                  // overlaps
//   ranks.wait(done);                                      // compute stream waits, host does not
//   ranks.end_step();
//   co_await ranks.await_step(0);
//
// The program passes simulated time only where it awaits host_wait(), await_mark() or await_step().
// Elsewhere the lanes' clocks run ahead of the world's clock. Unless collectives slow compute down,
// all work between two collectives is plain arithmetic. If a transfer becomes known only after its
// start time has passed, it starts late but is credited with the bytes of the missed time, so that
// uncontended times are exact.
//
// Work and streams have names for an observer (engine/observer.hpp): texts that live as long as the
// simulation.
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

// A kind of busy time of the compute stream. The values serve as indices (Interference::Mixture).
enum class Phase { forward, backward, optimizer, copies };
// The field of StepSplit that holds the busy device time of a phase.
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

// Resources that the running collectives take from compute. The fields are sums of the fields of
// TransferSpec with the same names; `compute_speed` is a product.
struct Occupancy {
  double channels = 0;
  double hbm_bytes_per_second = 0;
  double cores = 0;
  double compute_speed = 1;
  bool operator==(const Occupancy&) const = default;
};

// The cause of an idle time of a compute stream. wait() adds the idle time to the part of the step
// with this name.
enum class WaitCause {
  communication,
  data_loading,
  waiting,
  copies,
  host_bound,
  optimizer,
  bubble
};

// A point in time for each lane, which becomes known once the work before it is computed: a
// recorded stream position, the end of a collective or of a copy. Cheap to copy, because copies
// share the state. A default Event lies in the past.
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

// A queue of collectives over all lanes, which run in order, one after the other (facts 10, 11).
//
// With several groups (a partition of the lanes, for example the nodes of HYBRID_SHARD), every
// group starts a collective when its own last lane arrives and its own previous collective has
// ended. Each group slows down the compute of its own lanes only. `uses` of a transfer count the
// traffic of all groups together.
//
// If neither other transfers nor compute can slow a transfer down, it takes its time without other
// traffic (TransferSpec) in every group. Otherwise it crosses the network once, for the group that
// starts last, because that group sets the pace of the job. In the other groups the transfer takes
// the same number of seconds.
//
// Made by RankGroup::add_communicator(), owned by the world.
class Communicator;

// Index of an additional in-order queue per lane (copy engine, data loader, CPU optimizer) in its
// rank group.
using StreamId = int;

// Properties of a rank group, given to World::add_ranks().
struct RankGroupSpec {
  std::string name = "ranks";
  std::vector<double> ranks_per_lane{1};  // number of identical ranks of each lane
  // The lane that represents each rank, for an observer. Empty: the ranks are numbered lane by
  // lane.
  std::vector<int> lane_of_rank{};
  // By lane: the number of its device among the job's devices (DeviceSlowdown::device); empty = all
  // lanes run on the platform's device.
  std::vector<int> device_of_lane{};
  // Factor (>= 1) on the time of work of this phase while collectives run beside it. The argument
  // holds the resources that these collectives take together. Empty = no interference (facts 112,
  // 113).
  std::function<double(Phase phase, const Occupancy&)> slowdown{};
  // CPU ranks: one thread both issues and computes. Dispatch is part of the work's device time and
  // host times are ignored. host_wait() blocks the compute stream, and a collective is issued when
  // the compute stream reaches it.
  bool one_thread = false;
};

// Parts of one step in seconds, by lane. The rest of a step is the lane's compute, host-bound time
// and input.
struct LaneSteps {
  LaneSteps() = default;
  explicit LaneSteps(std::size_t lanes)
      : seconds(lanes), host(lanes), communicating(lanes), waiting(lanes) {}
  std::vector<double> seconds;  // end of the previous step to the end of this one
  // The same, from the host's clock when it issues the ends of the two steps.
  std::vector<double> host;
  std::vector<double> communicating;  // the compute stream stands still for a running transfer
  std::vector<double> waiting;        // the compute stream stands still for other ranks
};

// One step on the compute streams, as a mean over ranks. The parts of `split` add up to `seconds`.
struct StepRecord {
  double seconds = 0;  // from the end of the previous step (or time 0) to the end of this one
  StepSplit split;
  // Part of the busy time that exists only because collectives ran beside it.
  double interference = 0;
  LaneSteps lanes;
};

// Clocks of the lanes at a place in the program: the host's clock when it issues the place, and the
// compute stream's clock when it reaches the place. `device` is empty until then.
struct Mark {
  std::vector<double> host, device;
  StepRecord sums;      // parts of the step in progress, summed over ranks
  int collectives = 0;  // number of collectives issued before the mark
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
  // The host is busy for `seconds`, for example with Python code. Ignored on CPU ranks
  // (RankGroupSpec::one_thread).
  void host(double seconds, std::string_view name = {});
  // The host blocks until `resume` seconds after the event (item(), torch.cuda.synchronize()),
  // unless its clock is later already. On CPU ranks, the same as wait().
  Program host_wait(Event event, double resume = 0);
  // An event at the host's present time. If a compute stream waits for it, the idle time is
  // host-bound. On CPU ranks, the same as record().
  Event host_position();

  // --- compute stream
  // The host issues `work` and the compute stream executes it, by the rule of QueuedWork
  // (costs/cost.hpp). The work's device time is multiplied by the lane's factor. Idle time before
  // and between its kernels is host_bound.
  void compute(Phase phase, const QueuedWork& work, std::string_view name = {});
  // Computes work whose parts are reported to an observer one after the other.
  // REQUIRES: `work` outlives the run.
  void compute(Phase phase, const NamedWork& work);
  // Computes layers with exchanges between them. `work.issued` includes the host's time to issue
  // the exchanges.
  // REQUIRES: the lanes of each group begin together, no other collective runs beside the work, and
  // there is no observer.
  void compute(Phase phase, const Communicator& communicator, const ExchangedWork& work);
  // The compute stream waits; the host does not. The idle time is booked by its cause: exposed
  // communication if a transfer runs, waiting if another rank is late, host-bound if the lane's own
  // host has not issued the collective yet. The wait for a message of a channel to start is bubble.
  // An event of another stream has its own WaitCause.
  void wait(const Event& event);
  // The compute stream's present position. If `of` is given, it holds a list of lanes for each
  // lane, and the event's time in a lane is the latest position among the listed lanes.
  // REQUIRES: `of` outlives the run.
  Event record(const std::vector<std::vector<int>>& of = {});
  // An event at this time in every lane. A compute stream that waits for it books the idle time as
  // `cause`.
  static Event happened(double time, WaitCause cause);
  // Completes `event` when the compute stream reaches this place and the host has issued it.
  void post(const Event& event);

  // --- communication
  // Makes a communicator. `groups` is a partition of the lanes; empty = all lanes together. Exposed
  // communication of its collectives is added to `axis` of the mesh.
  Communicator& add_communicator(const std::string& name, std::vector<std::vector<int>> groups = {},
                                 double AxisSeconds::*axis = &AxisSeconds::data);
  // Queues one collective and returns its end. A lane is ready at max(host, after). A group's
  // collective runs when all lanes of the group are ready and the communicator's earlier
  // collectives have ended in the group. The host's time to issue it is not included: call host()
  // before.
  Event start(Communicator& communicator, const TransferSpec& spec, const Event& after = {});
  // Queues one message of a channel (engine/channel.hpp). A lane is ready at max(host, after,
  // posted), and the message's end completes `done`.
  void start(Communicator& communicator, const TransferSpec& spec, const Event& after,
             const Event& posted, const Event& done);
  // --- other streams
  // Adds a stream beside the compute stream. A compute stream that waits for an item of the new
  // stream books the idle time as `cause`.
  StreamId add_stream(const std::string& name, WaitCause cause = WaitCause::communication);
  // Queues `seconds` of work after the stream's earlier work. The work begins at max(stream, host,
  // after). If `after_host` is false, the host's clock does not matter (a background thread issues
  // the work). `more` are additional seconds by lane; empty = none.
  Event enqueue(StreamId stream, double seconds, const Event& after = {}, bool after_host = true,
                std::string_view name = {}, std::vector<double> more = {});
  // By lane: the additional seconds for `work` on the lane's device, compared with the platform's
  // device (the argument `more` of enqueue()). Empty = all devices take equally long.
  std::vector<double> elsewhere(const QueuedWork& work) const;
  // Queues a copy over links. In each lane it takes its time without other traffic, because copies
  // do not compete for links. Its traffic is counted on `uses`.
  Event copy(StreamId stream, const TransferSpec& spec, const Event& after = {});

  // --- stretches of the program that repeat themselves, in runs without an observer
  // Saves the lanes' clocks at this place in the program. Returns the mark's number. At least the
  // latest eight marks remain valid.
  int mark();
  Program await_mark(int number);  // returns when the compute stream has reached the mark
  const Mark& marked(int number) const;
  // Counts the stretch between two marks `times` more: step records and links count it, but no
  // simulated time passes. In simulated time, the lane whose compute stream advances least in the
  // stretch stands still. Every other clock is moved by the difference between its own advance and
  // the advance of that lane. Returns the moves of the host's clocks, in seconds by lane.
  // REQUIRES: the compute stream has reached both marks, and the program behaves in the same way in
  // every repetition.
  std::vector<double> repeat(int from, int to, int times);
  // Apply the moves that repeat() returned to other clocks that follow the host's clock. move()
  // changes the clock of a stream; moved() returns a copy of an event with moved times.
  // REQUIRES: `event` is known, and not the default Event.
  void move(StreamId stream, const std::vector<double>& seconds);
  static Event moved(const Event& event, const std::vector<double>& seconds);

  // --- steps
  // A step ends at the compute stream's present position.
  void end_step();
  Program await_step(int index);  // returns when step `index` (0 = first) is computed
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
