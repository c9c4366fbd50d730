// The format of a cluster's scenario: one declaration per field (core/fields.hpp), from which the
// reader, the located errors, the JSON Schema and the documentation follow. Code that reads, writes
// or documents the format includes this header; all other code needs only cluster_file.hpp.
//
// `location` stores the place of a value in the file, so that a check that runs after reading can
// name that place. `check` tests fields against each other once all fields of the map are read.
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
  v.field("nodes", n.nodes, "Number of nodes.", {.min = 1, .max = 100'000, .required = true});
}

template <class Visitor>
void describe(Visitor& v, ElasticSpec& e) {
  v.field("least", e.least, "Smallest number of GPUs on which a job can start.",
          {.min = 1, .max = 1e6});
  v.field("most", e.most,
          "Largest number of GPUs that a job can use and may ask for; 0 = the number it asks for. "
          "Between `least` and `most`, a job runs on `least` times a power of two.",
          {.min = 0, .max = 1e6});
  v.field("pause", e.pause,
          "Time that training stops when GPUs come or go; 0 for asynchronous workers, which join "
          "and leave alone.",
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
          "Its jobs can run on fewer or more GPUs than they ask for (policy elastic); left out = "
          "on exactly as many.");
  v.field("restart", k.restart, "Time from getting GPUs again after an eviction to the next step.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
  v.field("checkpoint_period", k.checkpoint_period,
          "Training time between checkpoints: an evicted job loses its progress since the last "
          "one; 0 = it saves its state when it is evicted.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e9});
  v.field("switch", k.switching,
          "Stop at the beginning of a turn (policy time_slicing) while one job's state leaves the "
          "GPUs and the next job's arrives; left out = twice its bytes over the host links.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
  v.field("migration", k.migration,
          "Stop when a job moves to other GPUs (policies time_slicing, migration); left out = "
          "`switch` plus its bytes over the network.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e6});
}

template <class Visitor>
void describe(Visitor& v, JobSpec& j) {
  v.location(j.where);
  v.location("gpus", j.gpus_where);
  v.location("workload", j.workload_where);
  v.field("name", j.name, "Name of the job; left out = its place in the list.");
  v.field("workload", j.workload, "Name of one of `workloads`.", {.required = true});
  v.field("submit", j.submit, "Time of submission.",
          {.unit = Dimension::seconds, .min = 0, .max = 1e10});
  v.field("gpus", j.gpus, "GPUs that the job asks for.", {.min = 1, .max = 1e6});
  v.field("duration", j.duration,
          "Training time on the GPUs that the job asks for; either this or `samples`.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9});
  v.field("samples", j.samples, "Samples to train on; the simulated speed gives the time.",
          {.unit = Dimension::count, .min = 1, .max = 1e16});
  v.field("limit", j.limit,
          "Time limit that the scheduler is told, on the GPUs that the job asks for; 0 = the "
          "scheduler knows the true duration.",
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
          "Workload of jobs whose JobName is no workload's name; left out = every JobName must be "
          "one.");
  v.field("partition", t.partition, "Partition of the jobs to read; left out = all partitions.");
}

template <class Visitor>
void describe(Visitor& v, FixedLength& l) {
  v.field("seconds", l.seconds, "Duration of each job.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
}
template <class Visitor>
void describe(Visitor& v, ExponentialLength& l) {
  v.field("mean", l.mean, "Mean duration of all jobs.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
}
template <class Visitor>
void describe(Visitor& v, LognormalLength& l) {
  v.field("median", l.median, "Median duration.",
          {.unit = Dimension::seconds, .min = 1e-3, .max = 1e9, .required = true});
  v.field("sigma", l.sigma, "Standard deviation of the logarithm of the duration.",
          {.min = 0, .max = 5});
}

template <class Visitor>
void describe(Visitor& v, MixSpec& m) {
  v.location(m.where);
  v.location("gpus", m.gpus_where);
  v.location("workload", m.workload_where);
  v.field("workload", m.workload, "Name of one of `workloads`.", {.required = true});
  v.field("weight", m.weight, "Share of the jobs, among the weights of all.",
          {.min = 1e-6, .max = 1e6});
  v.field("gpus", m.gpus, "GPUs that a job asks for; listed numbers are equally likely.",
          {.min = 1, .max = 1e6, .min_items = 1, .max_items = 100, .single = true});
  v.field("duration", m.duration, "Training time on the GPUs that a job asks for.",
          {.required = true});
}

template <class Visitor>
void describe(Visitor& v, GeneratedSpec& g) {
  v.field("count", g.count, "Number of jobs.", {.min = 1, .max = 1e6, .required = true});
  v.field("per_hour", g.per_hour, "Arrivals per hour, at random (Poisson).",
          {.min = 1e-6, .max = 1e9, .required = true});
  v.field("seed", g.seed, "Seed of all random draws.", {.min = 0, .max = 9e15});
  v.field("mix", g.mix, "Kinds of submitted jobs, with their weights.",
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
  v.field("description", c.description,
          "Free text: the reason for the question, and figures to look at.");
  v.field("cluster", c.cluster, "The nodes.", {.required = true});
  v.field("workloads", c.workloads, "Workloads: the training of a job, by name.",
          {.required = true, .min_items = 1, .max_items = 1000});
  v.field("jobs", c.jobs, "List of jobs; instead of `trace` or `generated`.");
  v.field("trace", c.trace, "Jobs that ran on a real cluster.");
  v.field("generated", c.generated, "Jobs drawn at random.");
  v.field("policies", c.policies, "Policies to compare; gains are relative to the first.",
          {.min_items = 1, .max_items = 6});
  v.field("preemption", c.preemption,
          "Options of the policy preemption: the jobs that it may evict.");
  v.location("time_slicing", c.slicing_where);
  v.field("time_slicing", c.time_slicing,
          "Options of the policy time_slicing: the length of a turn.");
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
