// How strategy options are written in a scenario file: one declaration per field (core/fields.hpp).
// What the fields do is in docs/strategies.md.
#pragma once

#include "core/fields.hpp"
#include "strategies/options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// PyTorch reduces and gathers in half or in single precision; 0 = by the scenario's precision.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

template <class Visitor>
void describe(Visitor& v, DdpOptions& o) {
  v.field({.name = "bucket_size",
           .doc = "A gradient bucket is closed when it holds this much (bucket_cap_mb).",
           .unit = Dimension::bytes,
           .min = 1,
           .max = 1e12},
          o.bucket_bytes);
  v.field({.name = "first_bucket_size",
           .doc = "The same for the bucket that is reduced first.",
           .unit = Dimension::bytes,
           .min = 1,
           .max = 1e12},
          o.first_bucket_bytes);
  v.field({.name = "gradient_as_bucket_view",
           .doc = "Gradients are views of the buckets: saves a copy of the gradients."},
          o.gradient_as_bucket_view);
  v.field({.name = "broadcast_buffers",
           .doc = "Rank 0's buffers (batch norm statistics) are broadcast before every forward."},
          o.broadcast_buffers);
  v.field({.name = "find_unused_parameters",
           .doc = "Search the graph for parameters without gradient; buckets are never rebuilt."},
          o.find_unused_parameters);
  v.field({.name = "static_graph", .doc = "The graph does not change between iterations."},
          o.static_graph);
  v.field({.name = "comm_hook", .doc = "Compression of the gradients on the wire."}, o.comm_hook);
  v.field(
      {.name = "power_sgd_rank", .doc = "Rank of PowerSGD's approximation.", .min = 1, .max = 1024},
      o.power_sgd_rank);
  v.field({.name = "overlap",
           .doc = "Reduce buckets while backward runs; false: all of them after backward."},
          o.overlap);
  v.field({.name = "gradient_element_size",
           .doc = "Bytes of one gradient element on the wire, 2 or 4; 0 B = by precision.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 4},
          o.gradient_bytes);
  v.check(
      [&](auto report) { check_element_size(report, "gradient_element_size", o.gradient_bytes); });
}

template <class Visitor>
void describe(Visitor& v, WrapOptions& o) {
  v.field({.name = "policy",
           .doc = "Which modules become units: repeated blocks, by size, or only the whole model; "
                  "automatic: by size when min_parameters is given, else blocks."},
          o.policy);
  v.field({.name = "min_parameters",
           .doc = "Smallest unit of the size policy; 0 = 100M, PyTorch's default.",
           .unit = Dimension::count,
           .min = 0,
           .max = 1e15},
          o.min_parameters);
}

template <class Visitor>
void describe(Visitor& v, FsdpOptions& o) {
  v.field({.name = "version",
           .doc = "1 = FullyShardedDataParallel, 2 = fully_shard.",
           .min = 1,
           .max = 2},
          o.version);
  v.field({.name = "sharding", .doc = "What is sharded, and over which ranks."}, o.sharding);
  v.field({.name = "wrap", .doc = "Which modules become FSDP units."}, o.wrap);
  v.field({.name = "backward_prefetch",
           .doc = "When backward asks for the next unit: before computing the present one (pre), "
                  "after it (post), or when it is needed (none). Version 2 is always pre."},
          o.backward_prefetch);
  v.field({.name = "forward_prefetch",
           .doc = "Ask for the next unit before computing the present one in forward (version 1)."},
          o.forward_prefetch);
  v.field({.name = "limit_all_gathers",
           .doc = "The host waits so that at most two units are gathered ahead (version 1)."},
          o.limit_all_gathers);
  v.field({.name = "cpu_offload",
           .doc = "Shards, their gradients and the optimizer live in host memory."},
          o.cpu_offload);
  v.field({.name = "gather_element_size",
           .doc = "Bytes of one gathered parameter (param_dtype), 2 or 4; 0 B = by precision.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 4},
          o.gather_bytes);
  v.field({.name = "reduce_element_size",
           .doc = "Bytes of one reduced gradient (reduce_dtype), 2 or 4; 0 B = as gathered.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 4},
          o.reduce_bytes);
  v.field(
      {.name = "sync_every_micro_batch",
       .doc = "Reduce gradients after every micro-batch; false: only after the last (no_sync)."},
      o.sync_every_micro_batch);
  v.field({.name = "shard_group",
           .doc = "Ranks that share one copy in the hybrid modes; 0 = one node.",
           .min = 0,
           .max = 1e6},
          o.shard_group);
  v.field({.name = "use_orig_params",
           .doc = "The optimizer sees the original parameters, not one flat tensor (version 1)."},
          o.use_orig_params);
  v.check([&](auto report) {
    check_element_size(report, "gather_element_size", o.gather_bytes);
    check_element_size(report, "reduce_element_size", o.reduce_bytes);
  });
}

template <class Visitor>
void describe(Visitor& v, ParameterServerOptions& o) {
  v.field(
      {.name = "consistency",
       .doc = "sync: all workers step together; async: no waiting; ssp: at most staleness_bound "
              "clocks apart."},
      o.consistency);
  v.field({.name = "servers", .doc = "Number of servers.", .min = 1, .max = 256}, o.servers);
  v.field({.name = "staleness_bound",
           .doc = "ssp: clocks by which a worker may be ahead of the slowest.",
           .min = 0,
           .max = 1e6},
          o.staleness_bound);
  v.field({.name = "placement", .doc = "Where the servers run."}, o.placement);
  v.field({.name = "keys", .doc = "How parameters are spread over the servers."}, o.keys);
  v.field({.name = "partition_size",
           .doc = "Keys are cut into parts of this size; 0 B = one key per tensor.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 1e12},
          o.partition_bytes);
  v.field({.name = "overlap",
           .doc = "Push each gradient as soon as it is ready; false: all after backward."},
          o.overlap);
  v.field({.name = "serial",
           .doc = "A server handles one message at a time, its transfer included (blocking send "
                  "and receive in one thread)."},
          o.serial);
  v.field({.name = "element_size",
           .doc = "Bytes of one element on the wire, 2 or 4; 0 B = by precision.",
           .unit = Dimension::bytes,
           .min = 0,
           .max = 4},
          o.element_bytes);
  v.check([&](auto report) { check_element_size(report, "element_size", o.element_bytes); });
}

template <class Visitor>
void describe(Visitor& v, Lognormal& d) {
  v.field({.name = "sigma",
           .doc = "Standard deviation of the logarithm; the median is 1.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 5},
          d.sigma);
}

template <class Visitor>
void describe(Visitor& v, ShiftedExponential& d) {
  v.field({.name = "mean",
           .doc = "Mean of the exponential part that is added to 1.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 100},
          d.mean);
}

template <class Visitor>
void describe(Visitor& v, ParetoTail& d) {
  v.field({.name = "alpha", .doc = "Tail index; small = heavy.", .min = 1.01, .max = 1000},
          d.alpha);
  v.field({.name = "scale",
           .doc = "Weight of the tail: the factor is 1 + scale (Pareto - 1).",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 100},
          d.scale);
}

template <class Visitor>
void describe(Visitor& v, SlowRank& s) {
  v.location(s.where);
  v.field({.name = "rank", .doc = "Which rank, from 0.", .min = 0, .max = 1e6, .required = true},
          s.rank);
  v.field({.name = "factor",
           .doc = "Its device work takes this many times longer.",
           .min = 0.01,
           .max = 1000,
           .required = true},
          s.factor);
}

template <class Visitor>
void describe(Visitor& v, Stragglers& s) {
  v.field({.name = "per_step", .doc = "Slow-down drawn for every rank in every step."}, s.per_step);
  v.field(
      {.name = "per_rank",
       .doc = "Standard deviation of the ranks' fixed speeds around 1; left out: 1 % on GPUs, none "
              "on CPUs.",
       .unit = Dimension::fraction,
       .min = 0,
       .max = 1},
      s.per_rank_sigma);
  v.field(
      {.name = "slow_ranks", .doc = "Ranks that are always slower or faster.", .max_items = 65536},
      s.slow_ranks);
}

}  // namespace lockstep
