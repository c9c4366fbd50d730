// Options of the strategy `parameter_server` in a scenario file. For each struct, one describe()
// declares the name, text, unit and range of its fields; the file reader, the JSON Schema and the
// docs are generated from it (core/fields.hpp). The check_... functions refuse options that
// contradict each other. docs/parameter-server-base.md, docs/parameter-server.md and the facts
// cited below explain the meaning.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <variant>

#include "core/fields.hpp"
#include "results/schedule.hpp"
#include "strategies/options.hpp"
#include "strategies/outer_optimizer.hpp"

namespace lockstep {

// When a server applies pushes, and which workers wait for others.
enum class Consistency {
  sync,   // one update from the pushes of all workers, for which all wait (fact 68)
  async,  // each push is an update, and no worker waits for another (fact 69)
  ssp,  // each push is an update; a worker is at most a bound of steps ahead of the slowest worker
  softsync,        // n-softsync: an update from every workers / n pushes (fact 84)
  elastic,         // elastic averaging, EASGD (fact 88)
  modified_async,  // the protocol of Ovi 2026 (docs/study.md): ssp, with updates weighted by age
};
template <>
struct EnumNames<Consistency> {
  static constexpr std::array names{"sync",     "async",   "ssp",
                                    "softsync", "elastic", "modified-async"};
};
// The machines on which servers run: the host of the first node; the GPUs of the first node; the
// hosts of the workers' nodes in turn; one host without workers for each server; or the host of
// each node and `own_hosts` further hosts, with one server on each (BytePS, fact H127). links.hpp
// gives the place of each server.
enum class ServerPlacement { cpu, gpu, worker_host, own_hosts, worker_and_own_hosts };
template <>
struct EnumNames<ServerPlacement> {
  static constexpr std::array names{"cpu", "gpu", "worker-host", "own-hosts",
                                    "worker-and-own-hosts"};
};
// The processes that run the optimizer. With `workers`, a server only sums gradients; each worker
// pulls the sum and updates its own copy of the parameters (BytePS, fact 77).
enum class UpdatePlace { servers, workers };
template <>
struct EnumNames<UpdatePlace> {
  static constexpr std::array names{"servers", "workers"};
};

// The kind of values that workers push.
enum class PushedValues {
  gradients,
  parameters,  // how far a worker moved by itself from the parameters that it pulled
};
template <>
struct EnumNames<PushedValues> {
  static constexpr std::array names{"gradients", "parameters"};
};

// Training data that differ between workers. Draws are keyed by seed and worker.
struct UnevenData {
  double sizes = 0;  // sigma of the lognormal distribution of a worker's number of samples
  // Concentration of the Dirichlet distribution of a worker's classes (Hsu et al. 2019). The
  // smaller it is, the fewer classes a worker sees. 0 = all workers have the same classes.
  double classes = 0;
};
template <class Visitor>
void describe(Visitor& v, UnevenData& d) {
  v.field("sizes", d.sizes,
          "Standard deviation of the logarithm of a worker's share of the samples; 0 = equal "
          "shares. A worker's batches between two pushes are in proportion to its share.",
          {.unit = Dimension::fraction, .min = 0, .max = 3});
  v.field("classes", d.classes,
          "Concentration of the Dirichlet distribution that a worker's classes are drawn from; 0 = "
          "all have the same classes. It changes accuracy, not time.",
          {.min = 0, .max = 1e6});
}

// The rule that assigns keys to servers (strategies/parameter_server/keys.hpp explains the rules).
enum class KeyRule {
  split_large,  // MXNet: cuts tensors of at least a million elements, hashes the others (fact 72)
  ranges,       // ps-lite: S equal contiguous ranges of the parameters (fact 71)
  hash,         // BytePS: hashes each key (djb2) to one server (fact 75)
  balanced,     // the largest key first, to the server that holds the least
};
template <>
struct EnumNames<KeyRule> {
  static constexpr std::array names{"split-large", "ranges", "hash", "balanced"};
};

// Encoding of pushed values. Pulled weights are never encoded.
struct UncompressedPush {};
struct HalfPush {};  // 16-bit numbers
// The largest gradients, each with a 32-bit index. A worker adds the others to its next gradients.
struct TopK {
  double share = 0.01;  // number of pushed elements, divided by the number of all elements
};
using PushCompression = std::variant<UncompressedPush, HalfPush, TopK>;
template <>
struct AlternativeNames<PushCompression> {
  static constexpr std::array names{"none", "fp16", "top_k"};
};
template <class Visitor>
void describe(Visitor&, UncompressedPush&) {}
template <class Visitor>
void describe(Visitor&, HalfPush&) {}
template <class Visitor>
void describe(Visitor& v, TopK& t) {
  v.field("share", t.share, "Share of the gradient's elements that is pushed.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 0.5});
}

// Sync-Switch (Li et al. 2021): after a given share of the run, another consistency rule applies.
struct ConsistencySwitch {
  Consistency to = Consistency::async;
  double at = 0.25;  // share of the run's steps after which the rule changes
};
template <class Visitor>
void describe(Visitor& v, ConsistencySwitch& s) {
  v.field("to", s.to, "sync or async.");
  v.field("at", s.at, "Share of the run after which the consistency changes.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 0.99});
  v.check([&](auto report) {
    if (s.to != Consistency::sync && s.to != Consistency::async) {
      report("to", "nothing switches to " + enum_name(s.to), "allowed: sync, async");
    }
  });
}

// Makes synchronous training asynchronous while a worker or the network is slow. It uses only
// values that a cluster's controller could measure: each worker's step time without waits for other
// workers, and the share of transfers in this time. `above` exceeds `below`, so that the controller
// does not switch back and forth at a single threshold.
struct PaceController {
  // Asynchronous if the slowest worker's step exceeds the median step by this factor.
  double above = 1.5;
  double below = 1.2;  // synchronous again below this factor
  // Training also becomes asynchronous if exposed transfers exceed this share of a step. Absent =
  // no such threshold.
  std::optional<double> communication;
  int window = 5;  // number of each worker's latest steps that are averaged

  // Whether synchronous workers become asynchronous. `share` is the share, 0 to 1, of exposed
  // transfers in all workers' steps.
  bool lets_go(double slowest_over_median, double share) const {
    return slowest_over_median > above || (communication && share > *communication);
  }
  // Whether asynchronous workers become synchronous. Both thresholds are lowered by the factor
  // `below` / `above`.
  bool comes_back(double slowest_over_median, double share) const {
    return slowest_over_median < below &&
           (!communication || share < *communication * below / above);
  }
};
template <class Visitor>
void describe(Visitor& v, PaceController& c) {
  v.field("above", c.above,
          "Asynchronous when the slowest worker takes so many times the median's time.",
          {.min = 1, .max = 1e6});
  v.field("below", c.below, "Synchronous again below this.", {.min = 1, .max = 1e6});
  v.field("communication", c.communication,
          "Also asynchronous when exposed transfers take more than this share of the workers' "
          "steps; synchronous again below this share times `below` / `above`. Left out: never.",
          {.unit = Dimension::fraction, .min = 0.01, .max = 0.99});
  v.field("window", c.window, "Number of latest steps of each worker whose mean is compared.",
          {.min = 1, .max = 1000});
  v.check([&](auto report) {
    if (c.below >= c.above) {
      report("below", "is not less than above: the consistency would alternate", "for example 1.2");
    }
  });
}

// The options of one `parameter_server` entry. If a comment begins with a rule or an option
// ("ssp:", "push: parameters"), the field has no effect without that rule or option.
struct ParameterServerOptions {
  static constexpr const char* name = "parameter_server";
  static constexpr const char* summary = "workers push gradients to servers: sync, async or ssp";
  static constexpr std::array forms{
      StrategyForm{"sync server", "sync server", "{consistency: sync}", 3, true},
      StrategyForm{"async server", "async server", "{consistency: async}", 3, true}};
  Consistency consistency = Consistency::sync;  // facts 68, 69, 83
  int servers = 1;          // not for worker-and-own-hosts: server_count() of links.hpp
  int staleness_bound = 3;  // ssp, modified-async: bound in clocks (s of fact 83)
  // ssp, modified-async: the bound adapts up to this value (DSSP); 0 = the bound is fixed.
  int highest_staleness_bound = 0;
  int backup_workers = 0;  // sync: late workers whose pushes are dropped (b of fact 87)
  int splitting = 1;       // softsync: number of updates in a round of all workers (n of fact 84)
  int exchange_every = 1;  // number of batches between two pushes: tau of fact 88
  double elasticity = 0;   // elastic: alpha of fact 88; 0 = 0.9 / workers
  PushedValues push = PushedValues::gradients;
  OuterOptimizer outer;                // push: parameters; the servers' step
  std::optional<double> participants;  // sync: share of the workers that are drawn for each update
  UnevenData data;                     // push: parameters
  // push: parameters; bytes of a masked push, divided by the bytes of a plain push.
  double secure_aggregation = 1;
  // The weight of a stale gradient. Absent = by age for modified-async, otherwise no weighting.
  std::optional<Weighting> weighting;
  double weighting_strength = 0.5;            // exponent of `age`, or lambda of both `compensated`
  std::optional<ConsistencySwitch> switches;  // absent = one rule for the whole run
  std::optional<PaceController> controller;   // absent = none
  ServerPlacement placement = ServerPlacement::cpu;
  int own_hosts = 1;                      // worker-and-own-hosts: k of fact H127
  std::optional<double> server_nic_rate;  // bytes/s in one direction; absent = the rate of a node
  UpdatePlace update = UpdatePlace::servers;  // workers: servers only sum (fact 77)
  bool local_reduction = false;  // a node pushes the sum of its GPUs' gradients (facts 74, H128)
  KeyRule keys = KeyRule::split_large;
  // Largest bytes of a key; larger keys are cut. 0 = only the rule `keys` cuts tensors (facts 72,
  // 75).
  double partition_bytes = 0;
  // Push each key as soon as its gradient is ready; pushes_overlap() of messages.hpp has an
  // exception.
  bool overlap = false;
  bool pull_overlap = false;  // compute each layer as soon as its weights have come back
  bool priority = false;      // messages of front layers are sent first (facts 73, 76)
  // Largest number of a worker's pushes under way; 0 = one to each server (fact 76).
  int credit = 0;
  PushCompression compression;
  // A server works on only one message, including its transfer, at the same time.
  bool serial = false;
  double element_bytes = 0;  // bytes of an element in messages; 0 = by the precision
};

// Whether each worker has its own optimizer, which makes a step on each of the worker's batches.
// Such a worker pushes parameters or distances, not gradients.
inline bool workers_step(const ParameterServerOptions& options) {
  return options.consistency == Consistency::elastic || options.push == PushedValues::parameters;
}

// Whether servers have an outer optimizer with momentum (DiLoCo).
inline bool steps_outward(const ParameterServerOptions& options) {
  return std::holds_alternative<NesterovOuter>(options.outer);
}

class Strategy;
std::unique_ptr<Strategy> make_strategy(const ParameterServerOptions& options);

// Refuses options that contradict `push: parameters`. In all checks below, report(field, problem,
// remedy) adds one located message with the text "FIELD: PROBLEM; REMEDY".
template <class Report>
void check_pushed_parameters(Report report, const ParameterServerOptions& o) {
  if (o.push == PushedValues::gradients) return;
  const char* needs = "`push: gradients`";
  if (o.consistency == Consistency::elastic) {
    report("push", "and consistency: elastic are two exchanges of parameters", "give one of them");
  }
  if (o.compression.index() != 0) {
    report("push_compression", "compresses gradients, and workers push parameters", needs);
  }
  if (o.overlap || o.pull_overlap) {
    report(o.overlap ? "overlap" : "pull_overlap",
           "moves layers one by one, and workers push and pull all parameters at once", needs);
  }
  if (o.update == UpdatePlace::workers) {
    report("update", "gives workers one sum of gradients, and each steps on its own", needs);
  }
  if (o.switches || o.controller) {
    report(o.switches ? "switch" : "controller",
           "changes when gradients are applied, and workers push parameters", needs);
  }
  if (compensates(o.weighting.value_or(Weighting::none))) {
    report("weighting", "compensates gradients, and workers push parameters",
           "none, staleness or age");
  }
}

// Refuses options that contradict `participants`, the share of the workers in each update.
template <class Report>
void check_participants(Report report, const ParameterServerOptions& o) {
  if (!o.participants) return;
  if (o.consistency != Consistency::sync || o.switches || o.controller) {
    report("participants", "are drawn for each synchronous update",
           "consistency: sync, without switch and controller");
  }
  if (o.local_reduction) {
    report("participants", "leave out some GPUs of a node that pushes one sum",
           "local_reduction: false");
  }
  if (o.pull_overlap) {
    report("participants", "wait for their round before they compute any layer",
           "pull_overlap: false");
  }
}

// Refuses all other options that contradict each other.
template <class Report>
void check_parameter_server(Report report, const ParameterServerOptions& o) {
  const bool elastic = o.consistency == Consistency::elastic;
  const int highest = o.highest_staleness_bound;
  if (highest > 0 && highest <= o.staleness_bound) {
    report("highest_staleness_bound", "leaves the bound nothing to adapt",
           "more than staleness_bound, or 0");
  }
  if (o.compression.index() != 0 && elastic) {
    report("push_compression", "compresses gradients, and elastic workers push weights",
           "element_size: 2 B sends half the bytes");
  }
  if (o.compression.index() != 0 && o.element_bytes != 0) {
    report("push_compression", "contradicts element_size", "give one of them");
  }
  if (o.weighting.value_or(Weighting::none) != Weighting::none && elastic) {
    report("weighting", "weighs gradients, and elastic workers push weights", "leave it out");
  }
  if (o.pull_overlap && (elastic || o.serial)) {
    report("pull_overlap",
           elastic
               ? "needs layers that are pulled by themselves, and elastic workers move all at once"
               : "needs answers that travel side by side, and a serial server sends one by one",
           "leave it out");
  }
  if (o.controller && (o.consistency != Consistency::sync || o.backup_workers > 0 || o.switches)) {
    report("controller",
           o.switches ? "and switch both change the consistency"
                      : "turns synchronous training asynchronous and back",
           o.switches ? "give one of them" : "consistency: sync, without backup_workers");
  }
  if (o.update == UpdatePlace::workers || o.local_reduction) {
    const char* field = o.local_reduction ? "local_reduction" : "update";
    if (o.consistency != Consistency::sync || o.switches || o.controller) {
      report(field,
             o.local_reduction ? "sums the pushes of a node's GPUs, but these do not push together"
                               : "workers with different weights cannot update with one sum",
             "consistency: sync, without switch and controller");
    }
    if (o.pull_overlap && o.update == UpdatePlace::workers) {
      report("pull_overlap",
             "begins forward with the weights that came back, but workers update all layers first",
             "update: servers");
    }
    if (o.local_reduction && (o.backup_workers > 0 || o.compression.index() != 0)) {
      report("local_reduction", "lets no GPU push by itself",
             "leave out backup_workers and push_compression");
    }
  }
  if (o.switches && (elastic || o.switches->to == o.consistency)) {
    report("switch",
           elastic ? "elastic workers push weights, which no other consistency takes"
                   : "names the consistency with which the run begins",
           "leave it out");
  }
}

// Fields about consistency: when a push is applied, its weight, and which workers wait.
template <class Visitor>
void describe_consistency(Visitor& v, ParameterServerOptions& o) {
  v.field("consistency", o.consistency,
          "sync: all workers step together; async: no waiting; ssp: workers are at most "
          "staleness_bound clocks apart; softsync: one update from every (workers / splitting) "
          "pushes; elastic: weights of workers and server move towards each other; modified-async: "
          "async with a bound, and updates weighted by age.");
  v.field("servers", o.servers, "Number of servers.", {.min = 1, .max = 256});
  v.field("staleness_bound", o.staleness_bound,
          "ssp, modified-async: number of clocks by which a worker may be ahead of the slowest.",
          {.min = 0, .max = 1e6});
  v.field("highest_staleness_bound", o.highest_staleness_bound,
          "ssp, modified-async: the bound adapts between staleness_bound and this value; 0 = fixed "
          "bound.",
          {.min = 0, .max = 1000});
  v.field(
      "backup_workers", o.backup_workers,
      "sync: number of workers that an update does not wait for; their late gradients are dropped.",
      {.min = 0, .max = 1e6});
  v.field("splitting", o.splitting,
          "softsync: updates in a round of all workers; more than workers = every push.",
          {.min = 1, .max = 1e6});
  v.field("exchange_every", o.exchange_every,
          "Batches between two pushes; their gradients are added up. With elastic or push: "
          "parameters, the worker updates its own parameters after each batch.",
          {.min = 1, .max = 1000});
  v.field("elasticity", o.elasticity,
          "elastic: share of the distance between worker and server by which both move; 0 = 0.9 / "
          "workers.",
          {.min = 0, .max = 1});
  v.field("weighting", o.weighting,
          "Weight of a stale gradient. none: 1; staleness: 1 / staleness; age: (1 + "
          "staleness)^-weighting_strength; compensated: DC-ASGD; compensated-adaptive: DC-ASGD "
          "with its adaptive lambda. Left out: age for modified-async, else none.");
  v.field("weighting_strength", o.weighting_strength,
          "Exponent of age, lambda of compensated and compensated-adaptive.",
          {.min = 0, .max = 100});
  v.field("switch", o.switches, "Another consistency from some point of the run on.");
  v.field("controller", o.controller,
          "sync: training is asynchronous while one worker is much slower than the others or the "
          "network is slow.");
}

// Fields about workers that update their own parameters.
template <class Visitor>
void describe_local_steps(Visitor& v, ParameterServerOptions& o) {
  v.field("push", o.push,
          "gradients; parameters: each worker updates its own parameters after every batch and "
          "pushes the difference since its pull; the servers step along the mean difference "
          "(federated averaging, asynchronous local SGD).");
  v.field("outer", o.outer,
          "push: parameters: the servers' step. mean: the mean difference; nesterov: an outer "
          "optimizer's step along it.");
  v.field("participants", o.participants,
          "sync: share of the workers that is drawn for each update; the others wait. Left out: "
          "all take part.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
  v.field("data", o.data, "push: parameters: how the workers' data differ.");
  v.field("secure_aggregation", o.secure_aggregation,
          "push: parameters: bytes of a push under secure aggregation, relative to a plain push.",
          {.min = 1, .max = 100});
}

// Fields about the places of servers and about the transferred data.
template <class Visitor>
void describe_traffic(Visitor& v, ParameterServerOptions& o) {
  v.field("placement", o.placement,
          "Where the servers run: cpu: on the first node's host; gpu: on its GPUs; worker-host: on "
          "the workers' hosts in turn; own-hosts: each on a host of its own; "
          "worker-and-own-hosts: one on each node's host and one on each of own_hosts more, with "
          "the shares of the parameters that make the exchange fastest.");
  v.field("own_hosts", o.own_hosts,
          "worker-and-own-hosts: hosts without GPUs that have a server; at most as many as nodes.",
          {.min = 0, .max = 256});
  v.field("server_nic_rate", o.server_nic_rate,
          "Line rate of the NIC of a server's own host, one way; left out: as of a node.",
          {.unit = Dimension::bytes_per_second, .min = 1e3, .max = 1e13});
  v.field(
      "update", o.update,
      "Place of the optimizer: servers, or workers, which pull the sum of the gradients (BytePS).");
  v.field(
      "local_reduction", o.local_reduction,
      "The GPUs of a node reduce-scatter gradients before a push and all-gather parameters after a "
      "pull, so that the node pushes and pulls once; false: each GPU pushes and pulls everything.");
  v.field("keys", o.keys, "How parameters are spread over the servers.");
  v.field("partition_size", o.partition_bytes,
          "Keys are cut into parts of this size; 0 B = one key per tensor.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e12});
  v.field("overlap", o.overlap,
          "Push each gradient as soon as it is ready; false: all after backward.");
  v.field("pull_overlap", o.pull_overlap,
          "Begin the next forward with the layers whose weights are back; false: with all.");
  v.field("priority", o.priority,
          "Messages of the front layers overtake others that wait to be sent; false: first come, "
          "first sent.");
  v.field(
      "credit", o.credit,
      "Messages (partitions) of a worker that may be on their way to servers at a time; 0 = one "
      "to each server.",
      {.min = 0, .max = 4096});
  v.field("push_compression", o.compression, "Format in which gradients are pushed.");
  v.field("serial", o.serial,
          "A server handles one message at a time, its transfer included (blocking send and "
          "receive in one thread).");
  v.field("element_size", o.element_bytes,
          "Bytes of one element on the wire, 2 or 4; 0 B = by precision.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
}

template <class Visitor>
void describe(Visitor& v, ParameterServerOptions& o) {
  describe_consistency(v, o);
  describe_local_steps(v, o);
  describe_traffic(v, o);
  v.check([&](auto report) {
    check_element_size(report, "element_size", o.element_bytes);
    check_parameter_server(report, o);
    check_pushed_parameters(report, o);
    check_participants(report, o);
  });
}

}  // namespace lockstep
