// How a cluster's scenario is written: one declaration per field (core/fields.hpp).
#pragma once

#include <algorithm>

#include "cluster/cluster_file.hpp"
#include "core/fields.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, NodesSpec& n) {
  v.location("platform", n.platform_where);
  v.location("nodes", n.nodes_where);
  v.field({.name = "platform",
           .doc = "Kind of node: name of a file in platforms/, or a path to one.",
           .required = true},
          n.platform);
  v.field({.name = "nodes", .doc = "How many.", .min = 1, .max = 100'000, .required = true},
          n.nodes);
}

template <class Visitor>
void describe(Visitor& v, ElasticSpec& e) {
  v.field({.name = "least", .doc = "GPUs that it can start with.", .min = 1, .max = 1e6}, e.least);
  v.field(
      {.name = "most",
       .doc =
           "GPUs that it can use, and may ask for; 0 = what it asks for. Between, doublings of the "
           "least.",
       .min = 0,
       .max = 1e6},
      e.most);
  v.field({.name = "pause",
           .doc = "Training stands still for so long when GPUs come or go; 0 for asynchronous "
                  "workers, who join and leave alone.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e6},
          e.pause);
  v.check([&](auto report) {
    if (e.most > 0 && e.most < e.least) report("most", "is less than `least`", "");
  });
}

template <class Visitor>
void describe(Visitor& v, KindSpec& k) {
  v.location(k.where);
  v.field({.name = "training",
           .doc = "A scenario as for `run`, with one strategy; name, platform and gpus come from "
                  "here.",
           .required = true},
          k.training);
  v.field({.name = "elastic",
           .doc = "Its jobs can do with fewer GPUs or use more (policy elastic); none = all at "
                  "once or not at all."},
          k.elastic);
  v.field({.name = "restart",
           .doc = "From getting GPUs again after an eviction to the next step.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e6},
          k.restart);
  v.field({.name = "checkpoint_period",
           .doc = "Training time between checkpoints: what an evicted job did since the last is "
                  "lost; 0 = it saves when it is evicted.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e9},
          k.checkpoint_period);
}

template <class Visitor>
void describe(Visitor& v, JobSpec& j) {
  v.location(j.where);
  v.location("gpus", j.gpus_where);
  v.location("workload", j.workload_where);
  v.field({.name = "name", .doc = "Default: its place in the list."}, j.name);
  v.field({.name = "workload", .doc = "Name of one of `workloads`.", .required = true}, j.workload);
  v.field({.name = "submit",
           .doc = "When it is submitted.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e10},
          j.submit);
  v.field({.name = "gpus", .doc = "It asks for.", .min = 1, .max = 1e6}, j.gpus);
  v.field({.name = "duration",
           .doc = "On the GPUs it asks for; this or samples.",
           .unit = Dimension::seconds,
           .min = 1e-3,
           .max = 1e9},
          j.duration);
  v.field({.name = "samples",
           .doc = "To train on; the simulated speed makes a time of it.",
           .unit = Dimension::count,
           .min = 1,
           .max = 1e16},
          j.samples);
  v.field(
      {.name = "limit",
       .doc = "Time on the GPUs it asks for that the scheduler is told; 0 = it knows the truth.",
       .unit = Dimension::seconds,
       .min = 0,
       .max = 1e9},
      j.limit);
  v.field(
      {.name = "priority", .doc = "Higher ones stand first in line.", .min = -1000, .max = 1000},
      j.priority);
  v.check([&](auto report) {
    if ((j.duration > 0) == (j.samples > 0)) {
      report("", j.duration > 0 ? "has two lengths" : "has no length",
             "give one of duration, samples");
    }
  });
}

template <class Visitor>
void describe(Visitor& v, TraceSpec& t) {
  v.location("file", t.where);
  v.field({.name = "file",
           .doc = "CSV (or with |) with the columns of Slurm's sacct; a path from this file.",
           .required = true},
          t.file);
  v.field({.name = "workload",
           .doc = "Of jobs whose JobName is no workload's name; none = every name must be one."},
          t.workload);
  v.field({.name = "partition", .doc = "Of the jobs that count; none = all partitions."},
          t.partition);
}

template <class Visitor>
void describe(Visitor& v, FixedLength& l) {
  v.field({.name = "seconds",
           .doc = "Of each.",
           .unit = Dimension::seconds,
           .min = 1e-3,
           .max = 1e9,
           .required = true},
          l.seconds);
}
template <class Visitor>
void describe(Visitor& v, ExponentialLength& l) {
  v.field({.name = "mean",
           .doc = "Of all.",
           .unit = Dimension::seconds,
           .min = 1e-3,
           .max = 1e9,
           .required = true},
          l.mean);
}
template <class Visitor>
void describe(Visitor& v, LognormalLength& l) {
  v.field({.name = "median",
           .doc = "Half are shorter.",
           .unit = Dimension::seconds,
           .min = 1e-3,
           .max = 1e9,
           .required = true},
          l.median);
  v.field({.name = "sigma", .doc = "Of the logarithm.", .min = 0, .max = 5}, l.sigma);
}

template <class Visitor>
void describe(Visitor& v, MixSpec& m) {
  v.location(m.where);
  v.location("gpus", m.gpus_where);
  v.location("workload", m.workload_where);
  v.field({.name = "workload", .doc = "Name of one of `workloads`.", .required = true}, m.workload);
  v.field({.name = "weight",
           .doc = "Share of the jobs, among the weights of all.",
           .min = 1e-6,
           .max = 1e6},
          m.weight);
  v.field({.name = "gpus",
           .doc = "Asked for; each of several as often.",
           .min = 1,
           .max = 1e6,
           .min_items = 1,
           .max_items = 100,
           .single = true},
          m.gpus);
  v.field({.name = "duration", .doc = "On the GPUs asked for.", .required = true}, m.duration);
}

template <class Visitor>
void describe(Visitor& v, GeneratedSpec& g) {
  v.field({.name = "count", .doc = "Jobs.", .min = 1, .max = 1e6, .required = true}, g.count);
  v.field({.name = "per_hour",
           .doc = "Arrivals, at random (Poisson).",
           .min = 1e-6,
           .max = 1e9,
           .required = true},
          g.per_hour);
  v.field({.name = "seed", .doc = "Of all draws.", .min = 0, .max = 9e15}, g.seed);
  v.field({.name = "mix",
           .doc = "What is submitted.",
           .required = true,
           .min_items = 1,
           .max_items = 1000},
          g.mix);
}

template <class Visitor>
void describe(Visitor& v, PreemptionSpec& p) {
  v.field({.name = "after",
           .doc = "GPU time (GPUs x time) after which newer jobs may evict one.",
           .unit = Dimension::seconds,
           .min = 0,
           .max = 1e12},
          p.after);
}

template <class Visitor>
void describe(Visitor& v, ClusterFile& c) {
  v.field({.name = "name", .doc = "The question, in a few words.", .required = true}, c.name);
  v.field({.name = "description", .doc = "What to look at, and why."}, c.description);
  v.field({.name = "cluster", .doc = "The nodes.", .required = true}, c.cluster);
  v.field({.name = "workloads",
           .doc = "What jobs train, by name.",
           .required = true,
           .min_items = 1,
           .max_items = 1000},
          c.workloads);
  v.field({.name = "jobs", .doc = "One by one; or a trace; or generated ones."}, c.jobs);
  v.field({.name = "trace", .doc = "Jobs that ran somewhere."}, c.trace);
  v.field({.name = "generated", .doc = "Jobs drawn at random."}, c.generated);
  v.field({.name = "policies",
           .doc = "To compare; the first is what the others gain against.",
           .min_items = 1,
           .max_items = 4},
          c.policies);
  v.field({.name = "preemption", .doc = "Whom the policy of this name evicts."}, c.preemption);
  v.check([&](auto report) {
    const int lists = !c.jobs.empty() + c.trace.has_value() + c.generated.has_value();
    if (lists != 1) {
      report("", lists == 0 ? "has no jobs" : "has more than one list of jobs",
             "give one of jobs, trace, generated");
    }
    auto policies = c.policies;
    std::sort(policies.begin(), policies.end());
    if (c.preemption && !std::binary_search(policies.begin(), policies.end(), Policy::preemption)) {
      report("preemption", "has no effect without the policy of this name",
             "add preemption to `policies`, or leave this out");
    }
    if (std::adjacent_find(policies.begin(), policies.end()) != policies.end()) {
      report("policies", "names one twice");
    }
  });
}

}  // namespace lockstep
