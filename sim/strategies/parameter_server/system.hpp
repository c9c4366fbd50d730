// A parameter-server job without models and machines: workers that compute, messages that are
// pushed and pulled over routes, servers that apply them by a consistency rule. Fill a PsSystem
// (build.hpp, or by hand in tests) and play it by run_parameter_server().
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

enum class Direction { push, pull };

// The unit that a worker pushes to a server and pulls from it.
struct PsMessage {
  int server = 0;
  int place = 0;  // where that server runs
  int layer =
      0;  // of its tensors, the first of the model; with `priorities` the smallest goes first
  double elements = 0;
  int tensors = 0;
  int segment = 0;  // of PsSystem::segments, after which its gradients are ready
  // Index into PsSystem::segments: the first segment that computes with its weights. With
  // `pull_overlap` a worker begins its next step before the weights are back and waits at this
  // segment.
  int needed_by = 0;
  double push_bytes = 0;
  double pull_bytes = 0;
  double keep_seconds = 0;        // server time to take the first gradient of an update
  double accumulate_seconds = 0;  // to add one more
  double update_seconds = 0;      // to apply them
  // Collectives of a node's ranks: `reduce` before each rank pushes its part, `gather` after the
  // part is back.
  double reduce_seconds = 0, gather_seconds = 0;
  std::vector<ParameterPiece> pieces{};  // its parts of parameters
  std::string_view name{};               // for an observer: the layer, or how it is cut

  double bytes(Direction direction) const {
    return direction == Direction::push ? push_bytes : pull_bytes;
  }
};

// A message of one worker on its way.
struct PsParcel {
  Direction direction = Direction::push;
  int worker = 0;
  int message = 0;
  Observer::Number number = 0;  // an observer's
};

// Compute between two points at which messages become ready or are needed.
struct PsSegment {
  Phase phase = Phase::forward;
  QueuedWork work;
  bool needs_input = false;  // starts a micro-batch
  int batch = 0;             // of the step: below PsSystem::batches
  // For an observer: the names of its layers, or of the action.
  std::vector<NamedWork::Part> parts{};
};

// The rule changes when the workers have together done this share of the run (Sync-Switch).
struct PsPhase {
  double from = 0;
  PsRule rule;
};

// How messages travel between a worker and a server, one way.
struct PsRoute {
  std::vector<int> links;                                // of PsSystem::links
  double cap = std::numeric_limits<double>::infinity();  // bytes/s of private links
  double latency = 0;
  double cores = 0;  // CPUs: cores that a transfer keeps busy in the server's process
  // Number of hosts, 1 or 2, if a measured curve gives the time of a message. 0 = no curve; latency
  // and cap give the time.
  int measured = 0;

  auto operator<=>(const PsRoute&) const = default;
};

// A lone message, as the curve of its route describes it.
struct PsFlow {
  double bytes = 0;  // bytes that take the curve's time
  // Share, 0 to 1, that is still in buffers on the way when a serial server has finished sending.
  double held = 0;
};

// The routes between a worker and the servers of a place.
struct PsWay {
  int push = 0, pull = 0;  // of PsSystem::routes
  // If true, all messages of a direction wait for each other, as behind a copy engine; if false,
  // only messages of the same server do.
  bool one_lane = false;

  int route(Direction direction) const { return direction == Direction::push ? push : pull; }
  auto operator<=>(const PsWay&) const = default;
};

struct PsWorker {
  int ranks = 1;            // identical ranks that move in step (synchronous, no randomness)
  std::vector<PsWay> ways;  // by place
  int device = 0;           // DeviceSlowdown::device
};

// Another job's traffic that comes in bursts.
struct PsNeighbour {
  Bursts bursts;
  std::vector<int> links;  // of PsSystem::links, that it may cross
};

// Links that become slow.
struct PsSlowing {
  double from = 0;         // seconds
  std::vector<int> links;  // of PsSystem::links, that may be among them
};

struct PsSystem {
  std::vector<PsWorker> workers;
  int servers = 1;
  int places = 1;                   // hosts or GPUs that servers run on
  std::vector<PsMessage> messages;  // in the order they are pushed
  std::vector<PsSegment> segments;  // of one step of one worker
  int batches = 1;                  // optimizer batches in a step, between pushes
  bool pull_overlap = false;        // forward begins with the layers whose weights are back
  bool priorities = false;          // messages that wait to be sent overtake others
  int credit = 0;             // pushes of a worker under way at a time; 0 = one to each server
  std::vector<double> links;  // bytes/s, one way
  std::vector<PsRoute> routes;
  std::vector<PsNeighbour> neighbours;
  std::vector<PsSlowing> slowings;
  // Bytes/s of a link at this time while these neighbours send. Needed if there are neighbours or
  // slow links.
  std::function<double(int link, double time, const std::vector<bool>& sending)> capacity{};
  PsRule rule;
  std::vector<PsPhase> later;  // rules that follow it, in order
  // Replaces `later`: `rule` while the workers keep pace and the network is quick enough,
  // asynchronous otherwise.
  std::optional<PaceController> controller;
  // CPUs with fewer cores than processes: the worker on whose core each server works; -1, or left
  // out, = a core of its own.
  std::vector<int> core_of_server;
  // The flow of a message of `bytes`. If empty, the flow has the message's bytes, and nothing is
  // held. `one_core`: worker and server have one core.
  std::function<PsFlow(int route, double bytes, bool one_core)> flow{};
  bool serial_servers = false;  // a server handles one message at a time, its transfer included
  double input_seconds = 0;     // the loader needs this long for one micro-batch
  // Extra delay of a micro-batch in seconds; empty = never late. Must not depend on the order of
  // calls.
  std::function<double(int worker, int batch)> late_input{};
  double input_copy_seconds = 0;  // to bring it to the device, in the compute stream
  // Slow-down of the device of a worker in its batch-th batch; must not depend on the order of
  // calls.
  std::function<double(int worker, int batch)> factor;
  Observer* observer = nullptr;                // null = nobody listens; what follows is for it
  std::vector<int> worker_of_rank{};           // of `workers`; empty = each is one rank
  std::vector<std::string_view> link_names{};  // of `links`
  // The run ends when the ranks have together finished steps * ranks steps whose pushes were used.
  int steps = 100;
  bool steady = false;                     // stop early once the step time repeats
  std::function<void(double)> progress{};  // hears the share of the steps that is played
  bool records_updates = false;            // PsTrace::updates
};

struct PsTrace {
  std::vector<double> step_ends;  // time at which every further `ranks` worker steps were complete
  bool extrapolated = false;
  // The fields below cover the last `reported` steps: all after the first, or those of the steady
  // state.
  std::size_t reported = 0;
  StepSplit split;                                 // sums over the ranks' time, per rank and step
  std::vector<RankTimes> workers;                  // per step, as they are in PsSystem
  std::map<std::int64_t, std::int64_t> staleness;  // of every message applied after the first step
  double dropped = 0;  // share of the pushes that came too late to be used (backup workers)
  int stretches = 0;   // in which a controller let the workers go on by themselves
  double asynchronous_share = 0;                      // of the whole run's time
  std::map<std::int64_t, std::int64_t> worker_steps;  // steps begun -> ranks
  std::vector<double> link_bytes;                     // per step
  std::vector<double> link_busy;                      // fraction of the time
  double pushed_bytes = 0;                            // whole run, arrived
  double pulled_bytes = 0;
  double push_busy = 0;    // busiest worker: fraction of that time in which it sends,
  double pull_busy = 0;    // and receives
  double server_busy = 0;  // busiest server: fraction of the time
  // Updates of the whole run, in the order in which they were applied. Workers are ranks, from 0:
  // PsSystem::workers in their order.
  std::vector<ScheduledPush> updates;
};

PsTrace run_parameter_server(const PsSystem& system,
                             std::unique_ptr<Executor> executor = make_loop());

}  // namespace lockstep
