// What a user can say about failures in a long run, and about the checkpoints that answer them.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Of one of each; absent = never fails. Exponentially distributed, independent of each other.
struct FailureRates {
  std::optional<double> gpu, node, server, job, worker, link;
};

// At a given time of the run: a failure of a node, a server, a worker or a node's link, a node that
// leaves or joins, or (none of them) a failure of the job's software.
struct ScheduledFailure {
  double seconds = 0;
  std::optional<int> node = {}, server = {}, worker = {}, link = {}, leaves = {}, joins = {};
  Location where = {};

  int said() const {
    return node.has_value() + server.has_value() + worker.has_value() + link.has_value() +
           leaves.has_value() + joins.has_value();
  }
};

enum class Recovery { restart, elastic };
template <>
struct EnumNames<Recovery> {
  static constexpr std::array names{"restart", "elastic"};
};

struct Faults {
  FailureRates between;
  std::vector<ScheduledFailure> at;
  double detection_seconds = 60;
  double restart_seconds = 300;
  std::optional<double> repair_seconds;
  std::optional<double> link_outage_seconds;
  int spare_nodes = 0;
  std::optional<Recovery> recovery;  // absent = elastic where workers need not keep step
  int min_nodes = 1;
  int runs = 20;
  Location where = {};
};

struct Checkpoints {
  std::optional<double> every_seconds;
  std::optional<double> bytes;
  double bytes_per_second = 2e9;
};

template <class Visitor>
void describe(Visitor& v, FailureRates& r) {
  const FieldSpec mean_time{.unit = Dimension::seconds, .min = 1, .max = 1e14};
  v.field("gpu", r.gpu, "Of one GPU; its node is taken out.", mean_time);
  v.field("node", r.node, "Of one node: host, NIC, cable; GPUs apart.", mean_time);
  v.field("link", r.link, "Of one node's way into the network, which comes back by itself.",
          mean_time);
  v.field("worker", r.worker, "Of the process of one GPU, which begins anew where it was.",
          mean_time);
  v.field("server", r.server, "Of one parameter server on a host of its own.", mean_time);
  v.field("job", r.job, "Of the job as a whole: software, no node is lost.", mean_time);
}

template <class Visitor>
void describe(Visitor& v, ScheduledFailure& f) {
  v.location(f.where);
  v.field("time", f.seconds, "After the start of the run.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12, .required = true});
  v.field("node", f.node, "Which node fails, from 0.", {.min = 0, .max = 1e6});
  v.field("server", f.server, "Which parameter server fails, from 0.", {.min = 0, .max = 255});
  v.field("link", f.link, "Which node the network does not reach for `link_outage`, from 0.",
          {.min = 0, .max = 1e6});
  v.field("worker", f.worker, "Which GPU's process fails, from 0; its node stays.",
          {.min = 0, .max = 1e7});
  v.field("leaves", f.leaves,
          "Which node is taken away, from 0: with notice, so that a checkpoint is written.",
          {.min = 0, .max = 1e6});
  v.field("joins", f.joins,
          "Which node is there from now on, from 0; without a `leaves` before, it was not.",
          {.min = 0, .max = 1e6});
  v.check([&](auto report) {
    if (f.said() > 1) report("", "says more than one thing", "give each an entry");
  });
}

template <class Visitor>
void describe(Visitor& v, Faults& f) {
  v.location(f.where);
  v.field("mean_time_between_failures", f.between, "How often things fail.");
  v.field("at", f.at, "What happens at given times; with a time alone, the job's software fails.",
          {.max_items = 10000});
  v.field("detection", f.detection_seconds, "From a failure until the job is stopped.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("restart", f.restart_seconds,
          "From then, once there are nodes, until the checkpoint is being read.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("repair", f.repair_seconds,
          "Until a failed node, or another in its place, is back; left out: never.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
  v.field("link_outage", f.link_outage_seconds,
          "How long a node whose link fails cannot be reached.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
  v.field("spare_nodes", f.spare_nodes, "Idle nodes that replace failed ones; they are paid for.",
          {.min = 0, .max = 1e6});
  v.field("recovery", f.recovery,
          "restart: with all nodes, waiting for them; elastic: go on with those that are left. "
          "Left out: what need not keep step goes on, all else restarts.");
  v.field("min_nodes", f.min_nodes, "elastic: with fewer it waits.", {.min = 1, .max = 1e6});
  v.field("runs", f.runs, "Of the whole run, with other random failures each.",
          {.min = 1, .max = 10000});
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
    if (f.min_nodes != 1 && f.recovery == Recovery::restart) {
      report("min_nodes", "has no effect with recovery: restart",
             "a job that restarts needs all of its nodes");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, Checkpoints& c) {
  v.field("every", c.every_seconds,
          "Training between two checkpoints; left out: the optimum of Young and Daly.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e12});
  v.field("size", c.bytes, "Of one checkpoint; left out: parameters and optimizer state.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e18});
  v.field("bandwidth", c.bytes_per_second,
          "To and from storage, of each host that keeps a share of the state.",
          {.unit = Dimension::bytes_per_second, .min = 1, .max = 1e15});
}

}  // namespace lockstep
