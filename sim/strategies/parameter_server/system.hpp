// A parameter-server job reduced to numbers, without models and machines: workers that compute,
// messages that are pushed and pulled over routes, servers that apply pushes by a consistency rule.
// Fill a PsSystem (build.hpp does, or a test by hand) and play it by run_parameter_server(). Times
// are seconds of simulated time, sizes are bytes, rates are bytes/s.
//
// A step of one worker with two messages, `overlap` and without `pull_overlap`:
//   worker   |forward|backward of layer 1|backward of layer 0| waits              |next step
//                             push m0 ->|       push m1 ->|                       ^
//   server                               | take m0 |  ...  | take m1 | update, answer
//
// Numbers are indices: of workers into PsSystem::workers, of messages into PsSystem::messages, of
// segments into PsSystem::segments, of links and routes likewise.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "costs/named_work.hpp"
#include "engine/executor.hpp"
#include "engine/observer.hpp"
#include "results/record.hpp"
#include "results/schedule.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/parameter_server/rules/rule.hpp"

namespace lockstep {

// From a worker to a server (gradients), or back (weights).
enum class Direction { push, pull };

// The unit that a worker pushes to a server and pulls from it: one key, several keys, or all keys
// of a server. Each worker pushes and pulls each message once in a step.
struct PsMessage {
  int server = 0;
  int place = 0;  // where that server runs, below PsSystem::places
  // The frontmost layer of the message's tensors. Its gradients are ready last, and its weights are
  // needed first; with `priorities` the message of the smallest layer is sent first. 0 if all keys
  // of a server are one message.
  int layer = 0;
  double elements = 0;
  int tensors = 0;  // whole or in part
  int segment = 0;  // the message's gradients are ready at the end of this segment
  // The first segment that computes with its weights. With `pull_overlap` a worker begins its next
  // step before the weights are back and waits at this segment.
  int needed_by = 0;
  double push_bytes = 0;
  double pull_bytes = 0;
  // Server time for a push of one rank: the first gradient of an update is kept, each further one
  // is added, and then the sum is applied once.
  double keep_seconds = 0;
  double accumulate_seconds = 0;
  double update_seconds = 0;
  // Seconds of the collectives of a node's ranks (`local_reduction`): `reduce` before each rank
  // pushes its part, `gather` after the part is back. 0 = there is no such collective.
  double reduce_seconds = 0, gather_seconds = 0;
  std::vector<ParameterPiece> pieces{};  // the parameters, or parts of parameters, in the message
  std::string_view name{};               // for an observer: the layer's name, or "all keys"

  double bytes(Direction direction) const {
    return direction == Direction::push ? push_bytes : pull_bytes;
  }
};

// A message of one worker on its way.
struct PsParcel {
  Direction direction = Direction::push;
  int worker = 0;
  int message = 0;
  Observer::Number number = 0;  // by which an observer refers to the parcel; 0 = no observer
};

// A worker's compute between two points at which messages become ready or are needed.
struct PsSegment {
  Phase phase = Phase::forward;
  QueuedWork work;
  bool needs_input = false;  // begins a micro-batch: waits for the loader and copies the input
  int batch = 0;             // optimizer batch within the step, below PsSystem::batches
  // For an observer: the parts of the segment's work, named after layers or actions ("compress").
  std::vector<NamedWork::Part> parts{};
};

// The rule changes when the workers have together done this share of the run (Sync-Switch).
struct PsPhase {
  double from = 0;
  PsRule rule;
};

// How messages travel between a worker and a server, one way.
struct PsRoute {
  std::vector<int> links;  // shared links; a link that is listed k times carries k times the bytes
  // Bytes/s that a flow reaches at most, from the links that are not among `links`.
  double cap = std::numeric_limits<double>::infinity();
  double latency = 0;  // seconds before the first byte moves
  double cores = 0;    // CPUs: cores that a transfer keeps busy in the server's process
  // Number of hosts, 1 or 2, if a measured curve gives the time of a message. 0 = no curve; latency
  // and cap give the time.
  int measured = 0;

  auto operator<=>(const PsRoute&) const = default;
};

// The flow that stands for a lone message on a route with a measured curve.
struct PsFlow {
  double bytes = 0;  // at the route's cap they take as long as the curve says for the message
  // Share, 0 to 1, that is still in buffers on the way when a serial server has finished sending.
  double held = 0;
};

// Both routes between a worker and the servers of a place.
struct PsWay {
  int push = 0, pull = 0;  // indices into PsSystem::routes
  // If true, messages of one direction are sent one after the other, as by a copy engine; if false,
  // only messages of the same server are.
  bool one_lane = false;

  int route(Direction direction) const { return direction == Direction::push ? push : pull; }
  auto operator<=>(const PsWay&) const = default;
};

// A simulated worker: one rank, or several equal ranks that always do the same at the same time.
struct PsWorker {
  int ranks = 1;            // more than 1 only in synchronous jobs without randomness
  std::vector<PsWay> ways;  // by place
  int device = 0;           // kind of device: DeviceSlowdown::device
};

// Another job's traffic that comes in bursts. PsSystem::capacity gives the remaining capacity.
struct PsNeighbour {
  Bursts bursts;
  std::vector<int> links;  // indices of the links that the neighbor may cross
};

// Links that become slow at some time and stay slow. PsSystem::capacity says how slow.
struct PsSlowing {
  double from = 0;         // seconds of simulated time
  std::vector<int> links;  // indices of the links that may become slow
};

// The whole input of a run.
struct PsSystem {
  std::vector<PsWorker> workers;
  int servers = 1;
  int places = 1;                   // hosts or GPUs that servers run on
  std::vector<PsMessage> messages;  // in the order they are pushed
  std::vector<PsSegment> segments;  // of one step of one worker, in program order
  int batches = 1;                  // optimizer batches in a step; workers push after the last
  bool pull_overlap = false;        // forward begins with the layers whose weights are back
  bool priorities = false;          // messages of front layers overtake others that wait to be sent
  int credit = 0;             // pushes of a worker under way at a time; 0 = one to each server
  std::vector<double> links;  // bytes/s, one way
  std::vector<PsRoute> routes;
  std::vector<PsNeighbour> neighbours;
  std::vector<PsSlowing> slowings;
  // Bytes/s of a link at `time` while the neighbors marked in `sending` send. Must be set if there
  // are neighbors or slowings.
  std::function<double(int link, double time, const std::vector<bool>& sending)> capacity{};
  PsRule rule;                 // in force from the beginning
  std::vector<PsPhase> later;  // rules that replace it, in the order of their beginning
  // Replaces `later`: `rule` while the workers keep pace and the network is quick enough,
  // asynchronous otherwise.
  std::optional<PaceController> controller;
  // CPUs with fewer cores than processes: by server, the worker on whose core the server works. -1,
  // or no entry = the server has a core of its own.
  std::vector<int> core_of_server;
  // The flow of a message of `bytes` on a route. `one_core`: worker and server share one core. If
  // the function is empty, a flow has the message's bytes, and nothing is held.
  std::function<PsFlow(int route, double bytes, bool one_core)> flow{};
  bool serial_servers = false;  // a server handles one message at a time, its transfer included
  double input_seconds = 0;     // loader time of one micro-batch; 0 = never the bound
  // Extra delay in seconds of the batch-th micro-batch of a worker; empty = never late. The result
  // must not depend on the order of calls.
  std::function<double(int worker, int batch)> late_input{};
  double input_copy_seconds = 0;  // copy of a micro-batch to the device, in the compute stream
  // Factor on the device time of a worker in its batch-th optimizer batch. The result must not
  // depend on the order of calls.
  std::function<double(int worker, int batch)> factor;
  Observer* observer = nullptr;       // null = none; the next two fields are for it alone
  std::vector<int> worker_of_rank{};  // the worker that represents each rank; empty = one each
  std::vector<std::string_view> link_names{};  // of `links`
  // The run ends when the ranks have together finished steps * ranks steps whose pushes were used.
  int steps = 100;
  bool steady = false;                     // stop early once the step time repeats
  std::function<void(double)> progress{};  // called with the simulated share of the steps, 0 to 1
  bool records_updates = false;            // fill PsTrace::updates
};

// The outcome of a run. In this room a "step of all ranks" is complete each time that the ranks
// have together finished as many worker steps as there are ranks, whichever ranks made them: one
// global batch of samples that were used. With backup workers a dropped message does not count.
struct PsTrace {
  std::vector<double> step_ends;  // time at which each step of all ranks was complete
  bool extrapolated = false;      // the run ended early, because steps had become equal
  // The fields below cover the last `reported` steps, unless they say otherwise: all steps after
  // the first, or the steps of the steady state.
  std::size_t reported = 0;
  StepSplit split;                 // mean over ranks and steps; the parts add up to the mean step
  std::vector<RankTimes> workers;  // per step of all ranks, in the order of PsSystem::workers
  // Staleness -> number of ranks' pushes with it, after the first step.
  std::map<std::int64_t, std::int64_t> staleness;
  double dropped = 0;  // share of the pushes that came too late to be used (backup workers)
  int stretches = 0;   // how often a controller made the workers asynchronous; whole run
  double asynchronous_share = 0;  // share of the whole run's time in which they were
  std::map<std::int64_t, std::int64_t> worker_steps;  // steps begun -> number of ranks
  std::vector<double> link_bytes;                     // by link, per step
  std::vector<double> link_busy;                      // by link, share of the time
  double pushed_bytes = 0;                            // that arrived in the whole run
  double pulled_bytes = 0;
  double push_busy = 0;    // share of the time in which the busiest worker sends
  double pull_busy = 0;    // share of the time in which the busiest worker receives
  double server_busy = 0;  // share of the time in which the busiest server has a message in hand
  // Pushes of the whole run, in the order in which they were applied or dropped. Their workers are
  // ranks, numbered from 0 in the order of PsSystem::workers.
  std::vector<ScheduledPush> updates;
};

// Plays the system until PsSystem::steps are complete, or until steps repeat (`steady`). Throws
// std::logic_error if a message names a server or place that is not there.
PsTrace run_parameter_server(const PsSystem& system,
                             std::unique_ptr<Executor> executor = make_loop());

}  // namespace lockstep
