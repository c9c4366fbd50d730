// The format of a cluster's scenario: one declaration per field (core/fields.hpp), from which the
// reader, the located errors, the JSON Schema and the documentation follow. Include it in code that
// reads, writes or documents the format; all other code needs cluster_file.hpp alone.
//
// `location` keeps the place of a value in the file, so that a check that runs after reading can
// name it. `check` tests fields against each other once all fields of the map are read.
#pragma once

#include <algorithm>

#include "cluster/cluster_file.hpp"
#include "core/fields.hpp"

namespace lockstep {

template <class Visitor>
void describe(Visitor& v, NodesSpec& n) {
  v.location("platform", n.platform_where);
  v.location("nodes", n.nodes_where);
  v.field("platform", n.platform, "Kind of node: name of a file in platforms/, or a path to one.",
          {.required = true});
  v.field("nodes", n.nodes, "How many.", {.min = 1, .max = 100'000, .required = true});
}

template <class Visitor>
void describe(Visitor& v, ElasticSpec& e) {
  v.field("least", e.least, "GPUs that it can start with.", {.min = 1, .max = 1e6});
  v.field("most", e.most,
          "GPUs that it can use, and may ask for; 0 = what it asks for. Between, doublings of the "
          "least.",
          {.min = 0, .max = 1e6});
  v.field("pause", e.pause,
          "Training stands still for so long when GPUs come or go; 0 for asynchronous workers, who "
          "join and leave alone.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
  v.check([&](auto report) {
    if (e.most > 0 && e.most < e.least) report("most", "is less than `least`", "");
  });
}

template <class Visitor>
void describe(Visitor& v, KindSpec& k) {
  v.location(k.where);
  v.field("training", k.training,
          "A scenario as for `run`, with one strategy; name, platform and gpus come from here.",
          {.required = true});
  v.field("elastic", k.elastic,
          "Its jobs can do with fewer GPUs or use more (policy elastic); none = all at once or not "
          "at all.");
  v.field("restart", k.restart, "From getting GPUs again after an eviction to the next step.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
  v.field("checkpoint_period", k.checkpoint_period,
          "Training time between checkpoints: what an evicted job did since the last is lost; 0 = "
          "it saves when it is evicted.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field(
      "switch", k.switching,
      "Stop at the beginning of a turn (policy time_slicing): one state leaves the GPUs, the other "
      "comes; none = twice its bytes over the host links.",
      {.unit = Dimension::seconds, .min = 0, .max = 1e6});
  v.field(
      "migration", k.migration,
      "Stop to go on on other GPUs (policies time_slicing, migration); none = the same, and its "
      "bytes over the network.",
      {.unit = Dimension::seconds, .min = 0, .max = 1e6});
}

template <class Visitor>
void describe(Visitor& v, JobSpec& j) {
  v.location(j.where);
  v.location("gpus", j.gpus_where);
  v.location("workload", j.workload_where);
  v.field("name", j.name, "Default: its place in the list.");
  v.field("workload", j.workload, "Name of one of `workloads`.", {.required = true});
  v.field("submit", j.submit, "When it is submitted.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e10});
  v.field("gpus", j.gpus, "It asks for.", {.min = 1, .max = 1e6});
  v.field("duration", j.duration, "On the GPUs it asks for; this or samples.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9});
  v.field("samples", j.samples, "To train on; the simulated speed makes a time of it.",
          {.unit = Dimension::count, .min = 1, .max = 1e16});
  v.field("limit", j.limit,
          "Time on the GPUs it asks for that the scheduler is told; 0 = it knows the truth.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("priority", j.priority, "Higher ones stand first in line.", {.min = -1000, .max = 1000});
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
  v.field("file", t.file,
          "CSV (or with |) with the columns of Slurm's sacct; a path from this file.",
          {.required = true});
  v.field("workload", t.workload,
          "Of jobs whose JobName is no workload's name; none = every name must be one.");
  v.field("partition", t.partition, "Of the jobs that count; none = all partitions.");
}

template <class Visitor>
void describe(Visitor& v, FixedLength& l) {
  v.field("seconds", l.seconds, "Of each.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
}
template <class Visitor>
void describe(Visitor& v, ExponentialLength& l) {
  v.field("mean", l.mean, "Of all.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
}
template <class Visitor>
void describe(Visitor& v, LognormalLength& l) {
  v.field("median", l.median, "Half are shorter.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
  v.field("sigma", l.sigma, "Of the logarithm.", {.min = 0, .max = 5});
}

template <class Visitor>
void describe(Visitor& v, MixSpec& m) {
  v.location(m.where);
  v.location("gpus", m.gpus_where);
  v.location("workload", m.workload_where);
  v.field("workload", m.workload, "Name of one of `workloads`.", {.required = true});
  v.field("weight", m.weight, "Share of the jobs, among the weights of all.",
          {.min = 1e-6, .max = 1e6});
  v.field("gpus", m.gpus, "Asked for; each of several as often.",
          {.min = 1, .max = 1e6, .min_items = 1, .max_items = 100, .single = true});
  v.field("duration", m.duration, "On the GPUs asked for.", {.required = true});
}

template <class Visitor>
void describe(Visitor& v, GeneratedSpec& g) {
  v.field("count", g.count, "Jobs.", {.min = 1, .max = 1e6, .required = true});
  v.field("per_hour", g.per_hour, "Arrivals, at random (Poisson).",
          {.min = 1e-6, .max = 1e9, .required = true});
  v.field("seed", g.seed, "Of all draws.", {.min = 0, .max = 9e15});
  v.field("mix", g.mix, "What is submitted.",
          {.required = true, .min_items = 1, .max_items = 1000});
}

template <class Visitor>
void describe(Visitor& v, PreemptionSpec& p) {
  v.field("after", p.after, "GPU time (GPUs x time) after which newer jobs may evict one.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e12});
}

template <class Visitor>
void describe(Visitor& v, TimeSlicingSpec& t) {
  v.field("slice", t.slice, "Training time of a turn, after which another job may take it.",
          {.unit = Dimension::seconds, .min = 1, .max = 1e9});
}

template <class Visitor>
void describe(Visitor& v, ClusterFile& c) {
  v.field("name", c.name, "The question, in a few words.", {.required = true});
  v.field("description", c.description, "What to look at, and why.");
  v.field("cluster", c.cluster, "The nodes.", {.required = true});
  v.field("workloads", c.workloads, "What jobs train, by name.",
          {.required = true, .min_items = 1, .max_items = 1000});
  v.field("jobs", c.jobs, "One by one; or a trace; or generated ones.");
  v.field("trace", c.trace, "Jobs that ran somewhere.");
  v.field("generated", c.generated, "Jobs drawn at random.");
  v.field("policies", c.policies, "To compare; the first is what the others gain against.",
          {.min_items = 1, .max_items = 6});
  v.field("preemption", c.preemption, "Whom the policy of this name evicts.");
  v.location("time_slicing", c.slicing_where);
  v.field("time_slicing", c.time_slicing, "How long turns are under the policy of this name.");
  v.check([&](auto report) {
    const int lists = !c.jobs.empty() + c.trace.has_value() + c.generated.has_value();
    if (lists != 1) {
      report("", lists == 0 ? "has no jobs" : "has more than one list of jobs",
             "give one of jobs, trace, generated");
    }
    auto policies = c.policies;
    std::sort(policies.begin(), policies.end());
    const auto check = [&](bool given, Policy policy) {
      if (!given || std::binary_search(policies.begin(), policies.end(), policy)) return;
      const std::string name(enum_name(policy));
      report(name, "has no effect without the policy of this name",
             "add " + name + " to `policies`, or leave this out");
    };
    check(c.preemption.has_value(), Policy::preemption);
    check(c.time_slicing.has_value(), Policy::time_slicing);
    if (std::adjacent_find(policies.begin(), policies.end()) != policies.end()) {
      report("policies", "names one twice");
    }
  });
}

}  // namespace lockstep
