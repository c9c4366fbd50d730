// A parameter-server job reduced to numbers, without models and machines: workers that compute,
// messages that are pushed and pulled over routes, servers that apply pushes by a consistency rule.
// build.hpp (or a test) fills a PsSystem; run_parameter_server() plays it. Times are in seconds of
// simulated time, sizes in bytes, rates in bytes/s.
//
// A step of one worker with two messages, with `overlap` and without `pull_overlap`:
//   worker   |forward|backward of layer 1|backward of layer 0| waits              |next step
//                             push m0 ->|       push m1 ->|                       ^
//   server                               | take m0 |  ...  | take m1 | update, answer
//
// Workers, messages, segments, links and routes are identified by their indices in
// PsSystem::workers, PsSystem::messages, and so on.
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

// push: from a worker to a server (gradients). pull: back to the worker (weights).
enum class Direction { push, pull };

// A message, which is pushed to a server and pulled from it as a whole: one key (keys.hpp), several
// keys, or all keys of a server. In a step, each worker pushes and pulls each message once.
struct PsMessage {
  int server = 0;
  int place = 0;  // number of the place in which that server runs
  // The frontmost layer whose tensors are in the message. Its gradients are ready last, and its
  // weights are needed first. With `priorities`, the message with the smallest `layer` is sent
  // first. 0 if all keys of a server are one message.
  int layer = 0;
  double elements = 0;
  int tensors = 0;  // number of tensors that are wholly or partly in the message
  int segment = 0;  // segment at whose end the message's gradients are ready
  // The first segment that computes with the message's weights. With `pull_overlap`, a worker
  // begins its next step before the weights have come back, and waits at this segment.
  int needed_by = 0;
  double push_bytes = 0;
  double pull_bytes = 0;
  // Server time for a push of one rank. If an update has several pushes, the first gradient is
  // stored (keep), each further one is added to it (accumulate), and then the sum is applied once
  // (update). If it has one push, only update_seconds counts.
  double keep_seconds = 0;
  double accumulate_seconds = 0;
  double update_seconds = 0;
  // Seconds of the collectives of a node's ranks (`local_reduction`): `reduce` before each rank
  // pushes its part, `gather` after the part has come back. 0 = no such collective.
  double reduce_seconds = 0, gather_seconds = 0;
  std::vector<ParameterPiece> pieces{};  // the parameters, or parts of parameters, in the message
  std::string_view name{};               // for an observer: the layer's name, or "all keys"

  double bytes(Direction direction) const {
    return direction == Direction::push ? push_bytes : pull_bytes;
  }
};

// A message of one worker on its way, in one direction.
struct PsParcel {
  Direction direction = Direction::push;
  int worker = 0;
  int message = 0;
  Observer::Number number = 0;  // number under which an observer knows the parcel; 0 = no observer
};

// A worker's compute between two places in the program at which messages become ready or are
// needed.
struct PsSegment {
  Phase phase = Phase::forward;
  QueuedWork work;
  bool needs_input = false;  // begins a micro-batch: waits for the loader and copies the input
  int batch = 0;             // number of the optimizer batch in the step, below PsSystem::batches
  // For an observer: the parts of the segment's work, named after layers or actions ("compress").
  std::vector<NamedWork::Part> parts{};
};

// A later rule. It replaces the present one when the workers together have made the share `from` of
// the run (Sync-Switch).
struct PsPhase {
  double from = 0;
  PsRule rule;
};

// The path of messages between a worker and a server, in one direction.
struct PsRoute {
  // Shared links; if a link is listed k times, it carries k times the bytes.
  std::vector<int> links;
  // Largest rate of a flow in bytes/s, because of the links that are not in `links`.
  double cap = std::numeric_limits<double>::infinity();
  double latency = 0;  // seconds before the first byte moves
  double cores = 0;    // CPUs: number of cores of the server's process that a transfer keeps busy
  // 1 or 2, the number of hosts of the route, if a measured curve determines the time of a message.
  // 0 = no curve: latency and cap determine the time.
  int measured = 0;

  auto operator<=>(const PsRoute&) const = default;
};

// The flow that represents a message on a route with a measured curve.
struct PsFlow {
  double bytes = 0;  // at the route's cap they take the time of the curve
  // Share, 0 to 1, that is still in buffers on the route when a serial server has finished sending.
  double held = 0;
};

// Both routes between a worker and the servers of a place.
struct PsWay {
  int push = 0, pull = 0;  // indices into PsSystem::routes
  // True: messages of one direction are sent one after the other, as by a copy engine. False: only
  // messages of the same server are.
  bool one_lane = false;

  int route(Direction direction) const { return direction == Direction::push ? push : pull; }
  auto operator<=>(const PsWay&) const = default;
};

// A simulated worker: one rank, or several equal ranks that always behave alike.
struct PsWorker {
  int ranks = 1;            // above 1 only in synchronous jobs without randomness
  std::vector<PsWay> ways;  // by place
  int device = 0;           // kind of device: DeviceSlowdown::device
};

// Traffic of another job that comes in bursts. PsSystem::capacity gives the remaining capacity.
struct PsNeighbour {
  Bursts bursts;
  std::vector<int> links;  // indices of the links that the neighbour may cross
};

// Links that become slow at some time and stay slow. PsSystem::capacity gives their capacity.
struct PsSlowing {
  double from = 0;         // seconds of simulated time
  std::vector<int> links;  // indices of the links that may become slow
};

// The complete input of a run.
struct PsSystem {
  std::vector<PsWorker> workers;
  int servers = 1;
  int places = 1;                   // number of hosts or GPUs on which servers run
  std::vector<PsMessage> messages;  // in the order in which they are pushed
  std::vector<PsSegment> segments;  // of one step of one worker, in program order
  int batches = 1;  // number of optimizer batches in a step; workers push after the last one
  bool pull_overlap = false;  // forward begins with the layers whose weights have come back
  bool priorities = false;    // messages of front layers overtake others that wait to be sent
  // Largest number of a worker's pushes under way; 0 = one to each server (or to each place:
  // PsWay::one_lane).
  int credit = 0;
  std::vector<double> links;  // bytes/s in one direction
  std::vector<PsRoute> routes;
  std::vector<PsNeighbour> neighbours;
  std::vector<PsSlowing> slowings;
  // Bytes/s of a link at `time` while the neighbours that are true in `sending` send. Must be set
  // if there are neighbours or slowings.
  std::function<double(int link, double time, const std::vector<bool>& sending)> capacity{};
  PsRule rule;                 // the rule at the beginning
  std::vector<PsPhase> later;  // rules that replace it later, in order
  // Replaces `later`: `rule` while the workers are equally fast and the network is fast enough;
  // otherwise asynchronous.
  std::optional<PaceController> controller;
  // CPUs with fewer cores than processes. By server: the worker on whose core the server works. -1,
  // or no entry = the server has a core of its own.
  std::vector<int> core_of_server;
  // The flow of a message of `bytes` on a route. `one_core`: worker and server share a core. If the
  // function is empty, a flow has the message's bytes and `held` is 0.
  std::function<PsFlow(int route, double bytes, bool one_core)> flow{};
  // A server works on only one message, including its transfer, at the same time.
  bool serial_servers = false;
  // Loader time of one micro-batch; 0 = the loader never limits the speed.
  double input_seconds = 0;
  // Additional delay, in seconds, of the batch-th micro-batch of a worker; empty = no delays. The
  // result must not depend on the order of calls.
  std::function<double(int worker, int batch)> late_input{};
  double input_copy_seconds = 0;  // copy of a micro-batch to the device, on the compute stream
  // Factor on the device time of a worker in its batch-th optimizer batch. The result must not
  // depend on the order of calls.
  std::function<double(int worker, int batch)> factor;
  Observer* observer = nullptr;  // null = none; only an observer needs the next two fields
  // The worker that represents each rank; empty = each rank is a worker.
  std::vector<int> worker_of_rank{};
  std::vector<std::string_view> link_names{};  // of `links`
  // The run ends when the ranks together have made steps * ranks steps whose pushes were used.
  int steps = 100;
  bool steady = false;                     // stop early when the step time repeats
  std::function<void(double)> progress{};  // called with the simulated share of the steps, 0 to 1
  bool records_updates = false;            // fill PsTrace::updates
};

// The outcome of a run. A "step of all ranks" is complete whenever the ranks together have made as
// many more steps as there are ranks, no matter which ranks made them: it is one global batch of
// samples that were used. With backup workers, a dropped message does not count.
struct PsTrace {
  std::vector<double> step_ends;  // times at which the steps of all ranks were complete
  bool extrapolated = false;      // the run ended early because steps had become equal
  // Unless they say otherwise, the fields below cover the last `reported` steps: all steps after
  // the first, or the steps of the steady state.
  std::size_t reported = 0;
  StepSplit split;                 // mean over ranks and steps; the parts add up to the mean step
  std::vector<RankTimes> workers;  // per step of all ranks, in the order of PsSystem::workers
  // By staleness: number of ranks' pushes that had it, after the first step.
  std::map<std::int64_t, std::int64_t> staleness;
  double dropped = 0;  // share of the pushes that came too late and were dropped (backup workers)
  int stretches = 0;   // in the whole run: how often a controller made the workers asynchronous
  double asynchronous_share = 0;  // share of the whole run's time in which they were asynchronous
  std::map<std::int64_t, std::int64_t> worker_steps;  // by number of steps begun: number of ranks
  std::vector<double> link_bytes;                     // by link: bytes per step
  std::vector<double> link_busy;  // by link: share of the time in which it is busy
  double pushed_bytes = 0;        // bytes that arrived in the whole run
  double pulled_bytes = 0;
  double push_busy = 0;    // share of the time in which the busiest worker sends
  double pull_busy = 0;    // share of the time in which the busiest worker receives
  double server_busy = 0;  // share of the time in which the busiest server works on a message
  // All pushes of the run, in the order in which they were applied or dropped. Their workers are
  // ranks, numbered from 0 in the order of PsSystem::workers.
  std::vector<ScheduledPush> updates;
};

// Plays the system until PsSystem::steps are complete, or until steps repeat (`steady`). Throws
// std::logic_error if a message names a server or a place that does not exist.
PsTrace run_parameter_server(const PsSystem& system,
                             std::unique_ptr<Executor> executor = make_loop());

}  // namespace lockstep
