// Options of failures and checkpoints in a long run: the `faults:` and `checkpoint:` blocks of a
// scenario. Each field is declared once (describe()), for the scenario's reader and its schema. The
// long run (long_run.hpp) plays the options. All times are seconds; docs/faults.md explains the
// model.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Mean seconds between two failures of a single unit; absent = such a unit fails only at given
// times. Times between failures are exponentially distributed and independent.
struct FailureRates {
  std::optional<double> gpu, node, server, job, worker, link;
};

// An event at a given time of the run. At most one of the numbers may be given: a node, a server, a
// worker or a node's link fails, or a node leaves, joins or becomes slow. If no number is given,
// the job's software fails.
struct ScheduledFailure {
  double seconds = 0;
  std::optional<int> node = {}, server = {}, worker = {}, link = {}, leaves = {}, joins = {},
                     slows = {};
  Location where = {};

  // How many of the numbers are given; more than one is an error.
  int said() const {
    return node.has_value() + server.has_value() + worker.has_value() + link.has_value() +
           leaves.has_value() + joins.has_value() + slows.has_value();
  }
};

// How a job continues after a failure: restart with all nodes, with the remaining nodes, or with
// the remaining replicas while the failed one returns.
enum class Recovery { restart, elastic, replicas };
template <>
struct EnumNames<Recovery> {
  static constexpr std::array names{"restart", "elastic", "replicas"};
};

// Nodes that become slow but do not fail. They stay slow until they are evicted, leave or fail.
struct Degraded {
  std::optional<double> mean_seconds;  // until one node becomes slow; absent = only at given times
  double factor = 1.5;                 // device work takes this many times longer
  // From the moment at which a node becomes slow until another node replaces it; absent = never.
  std::optional<double> evict_after_seconds;
};

// Repeats the run until the mean finish is known precisely enough.
struct Until {
  double interval = 0.01;  // half of the mean's 95 % interval, divided by the mean
  int runs = 1000;         // largest number of runs
};

// The `faults:` block.
struct Faults {
  FailureRates between;
  std::vector<ScheduledFailure> at;
  double detection_seconds = 60;  // from a failure until the job is stopped
  double restart_seconds = 300;   // from the stop until the reading of the checkpoint begins
  // Replaces restart_seconds if spare nodes on which the program already runs take all free places.
  std::optional<double> hot_restart_seconds;
  // Replicas: from the detection until the remaining replicas continue; absent =
  // `usual_reconfigure_seconds`.
  std::optional<double> reconfigure_seconds;
  std::optional<double> repair_seconds;  // until a failed or evicted node is back; absent = never
  std::optional<double> link_outage_seconds;  // until a node with a failed link is back
  int spare_nodes = 0;                        // idle nodes that replace failed ones
  // Absent = elastic if workers need not run in step, else restart.
  std::optional<Recovery> recovery;
  int min_nodes = 1;  // the job waits if it has fewer
  std::optional<Degraded> degraded;
  int runs = 20;  // number of repetitions, each with other random failures
  std::optional<Until> until;
  Location where = {};
};
inline constexpr double usual_reconfigure_seconds = 30;  // an assumption

// blocking: training stands still for the whole write. staged: training stands still only for the
// copy to host memory.
enum class CheckpointWrite { blocking, staged };
template <>
struct EnumNames<CheckpointWrite> {
  static constexpr std::array names{"blocking", "staged"};
};

// Copies of the state in the memory of hosts (MemoryCopies in long_run.hpp).
struct PeerCopies {
  int copies = 2;  // number of hosts that hold each share, including its own host
  std::optional<double> every_seconds;  // absent = as often as the network's idle time allows
};

// The `checkpoint:` block.
struct Checkpoints {
  std::optional<double> every_seconds;  // seconds of training; absent = Young's and Daly's optimum
  std::optional<double> bytes;    // of one checkpoint; absent = parameters and optimizer state
  double bytes_per_second = 2e9;  // between storage and each host that has a share
  CheckpointWrite write = CheckpointWrite::blocking;
  std::optional<PeerCopies> peers;
  Location where = {};
};

template <class Visitor>
void describe(Visitor& v, FailureRates& r) {
  const FieldSpec mean_time{.unit = Dimension::seconds, .min = 1, .max = 1e14};
  v.field("gpu", r.gpu, "Mean time between failures of one GPU; its node leaves the job.",
          mean_time);
  v.field("node", r.node,
          "Mean time between failures of one node (host, NIC, cable), without its GPUs.",
          mean_time);
  v.field(
      "link", r.link,
      "Mean time between outages of one node's link to the network; the link recovers by itself.",
      mean_time);
  v.field("worker", r.worker,
          "Mean time between failures of the process of one GPU; it restarts on its node.",
          mean_time);
  v.field("server", r.server,
          "Mean time between failures of one parameter server on a host of its own.", mean_time);
  v.field("job", r.job, "Mean time between failures of the job's software; no node is lost.",
          mean_time);
}

template <class Visitor>
void describe(Visitor& v, ScheduledFailure& f) {
  v.location(f.where);
  v.field("time", f.seconds, "Time after the start of the run.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12, .required = true});
  v.field("node", f.node, "Index of the node that fails, from 0.", {.min = 0, .max = 1e6});
  v.field("server", f.server, "Index of the parameter server that fails, from 0.",
          {.min = 0, .max = 255});
  v.field("link", f.link,
          "Index of the node that the network does not reach for `link_outage`, from 0.",
          {.min = 0, .max = 1e6});
  v.field("worker", f.worker, "Index of the GPU whose process fails, from 0; its node stays.",
          {.min = 0, .max = 1e7});
  v.field(
      "leaves", f.leaves,
      "Index of the node that leaves, from 0; it gives notice, so that a checkpoint is written.",
      {.min = 0, .max = 1e6});
  v.field("joins", f.joins,
          "Index of the node that joins at this time, from 0; without an earlier `leaves`, the "
          "node is absent until then.",
          {.min = 0, .max = 1e6});
  v.field("slows", f.slows, "Index of the node that becomes slow as `degraded` says, from 0.",
          {.min = 0, .max = 1e6});
  v.check([&](auto report) {
    if (f.said() > 1) report("", "says more than one thing", "give each an entry");
  });
}

template <class Visitor>
void describe(Visitor& v, Degraded& d) {
  v.field("mean_time", d.mean_seconds, "Mean time until one node becomes slow.",
          {.unit = Dimension::seconds, .min = 1, .max = 1e14});
  v.field("factor", d.factor, "Device work of its GPUs takes this many times longer.",
          {.min = 1, .max = 1000});
  v.field(
      "evict_after", d.evict_after_seconds,
      "Time for which a node is slow before another node replaces it; left out: never replaced.",
      {.unit = Dimension::seconds, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, Until& u) {
  v.field("interval", u.interval, "Half of the 95 % interval of the mean finish, over the mean.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
  v.field("runs", u.runs, "Largest number of runs.", {.min = 1, .max = 10000});
}

// Reports settings of `degraded` that contradict each other.
template <class Report>
void check_slow_nodes(const Faults& f, Report report) {
  const bool listed =
      std::any_of(f.at.begin(), f.at.end(), [](const auto& one) { return one.slows.has_value(); });
  if (listed && !f.degraded) report("degraded", "missing: nodes become slow", "`degraded: {}`");
  if (!f.degraded) return;
  if (!listed && !f.degraded->mean_seconds) {
    report("degraded", "has no effect: no node becomes slow", "give its `mean_time`, 100 d");
  }
  if (f.degraded->evict_after_seconds && !f.repair_seconds) {
    report("repair", "missing: evicted nodes would not come back", "give the time it takes, 12 h");
  }
}

template <class Visitor>
void describe(Visitor& v, Faults& f) {
  v.location(f.where);
  v.field("mean_time_between_failures", f.between, "Mean times between failures, by component.");
  v.field("at", f.at,
          "Events at given times; an entry with a time alone is a failure of the job's software.",
          {.max_items = 10000});
  v.field("detection", f.detection_seconds, "Time from a failure until the job is stopped.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("restart", f.restart_seconds,
          "Time from the stop, once there are nodes, until the checkpoint is read.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("hot_restart", f.hot_restart_seconds,
          "As `restart`, if spare nodes on which the program already runs take all free places at "
          "once.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("reconfigure", f.reconfigure_seconds,
          "replicas: time from the detection until the remaining replicas go on; left out: 30 s.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("repair", f.repair_seconds,
          "Time until a failed node, or a replacement, is back; left out: never.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
  v.field("link_outage", f.link_outage_seconds,
          "Time for which a node whose link fails cannot be reached.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
  v.field("spare_nodes", f.spare_nodes, "Idle nodes that replace failed ones; they are paid for.",
          {.min = 0, .max = 1e6});
  v.field(
      "recovery", f.recovery,
      "restart: the job restarts with all of its nodes and waits for them; elastic: it restarts "
      "with the remaining nodes; replicas: a replica that loses a node comes back alone while the "
      "others go on. Left out: asynchronous workers go on, synchronous jobs restart.");
  v.field("min_nodes", f.min_nodes,
          "elastic, replicas: smallest number of nodes; with fewer the job waits.",
          {.min = 1, .max = 1e6});
  v.field("degraded", f.degraded, "Nodes that become slow.");
  v.field("runs", f.runs, "Number of simulated runs, each with other random failures.",
          {.min = 1, .max = 10000});
  v.field("until", f.until, "More runs until the mean time to finish is as certain as this.");
  v.check([&](auto report) {
    const FailureRates& r = f.between;
    if ((r.gpu || r.node) && !f.repair_seconds) {
      report("repair", "missing: without it no node is left in the end",
             "give the time until a failed node is replaced, 0 s = at once");
    }
    const bool links = r.link || std::any_of(f.at.begin(), f.at.end(), [](const auto& listed) {
                         return listed.link.has_value();
                       });
    if (links && !f.link_outage_seconds) {
      report("link_outage", "missing: links fail", "give the time until a link is back, 10 min");
    }
    if (!links && f.link_outage_seconds) {
      report("link_outage", "has no effect: no link fails", "give a time or a rate of `link`");
    }
    check_slow_nodes(f, report);
    if (f.until && f.runs < 10) report("runs", "too few for an interval", "give 10 or more");
    if (f.until && f.until->runs <= f.runs) {
      report("until", "no more runs than `runs`", "give `until` more, or leave it out");
    }
    if (f.hot_restart_seconds && f.spare_nodes == 0) {
      report("hot_restart", "has no effect without spare nodes", "give `spare_nodes`");
    }
    if (f.reconfigure_seconds && f.recovery != Recovery::replicas) {
      report("reconfigure", "has no effect without recovery: replicas",
             "`detection` and `restart` are those of the whole job");
    }
    if (f.min_nodes != 1 && f.recovery == Recovery::restart) {
      report("min_nodes", "has no effect with recovery: restart",
             "a job that restarts needs all of its nodes");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, PeerCopies& p) {
  v.field("copies", p.copies, "Hosts that hold each share of the state, its own among them.",
          {.min = 1, .max = 64});
  v.field("every", p.every_seconds,
          "Training time between two copies; left out: as often as the network permits.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, Checkpoints& c) {
  v.location(c.where);
  v.field("every", c.every_seconds,
          "Training time between two checkpoints; left out: the optimum of Young and Daly.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e12});
  v.field("size", c.bytes, "Size of one checkpoint; left out: parameters and optimizer state.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e18});
  v.field("bandwidth", c.bytes_per_second,
          "Bandwidth to and from storage, of each host that keeps a share of the state.",
          {.unit = Dimension::bytes_per_second, .min = 1, .max = 1e15});
  v.field("write", c.write,
          "blocking: training waits for the whole write; staged: training waits only for the copy "
          "to host memory.");
  v.field("peers", c.peers, "Additional copies in the memory of hosts.");
}

}  // namespace lockstep
