// What a user can say about DDP in a scenario file. Semantics: docs/strategies.md and the facts cited
// at each field.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/common/element_size.hpp"

namespace lockstep {

enum class CommHook { none, fp16_compress, bf16_compress, power_sgd };
template <>
struct EnumNames<CommHook> {
  static constexpr std::array names{"none", "fp16-compress", "bf16-compress", "powersgd"};
};

struct DdpOptions {
  static constexpr const char* name = "ddp";
  static constexpr const char* summary =
      "replicas; gradients are all-reduced in buckets during backward";
  double bucket_bytes = 25 * 1024.0 * 1024.0;   // bucket_cap_mb (fact 1)
  double first_bucket_bytes = 1024.0 * 1024.0;  // fact 1
  bool gradient_as_bucket_view = false;         // facts 13, 14
  bool broadcast_buffers = true;                // fact 15
  bool sync_batch_norm = false;                 // torch.nn.SyncBatchNorm
  bool find_unused_parameters = false;          // facts 4, 19
  bool static_graph = false;                    // fact 18
  CommHook comm_hook = CommHook::none;          // facts 20, 21
  int power_sgd_rank = 1;                       // fact 21
  bool overlap = true;  // false: all buckets are reduced after backward (Megatron's local DDP,
                        // no_sync-like loops)
  double gradient_bytes = 0;  // bytes per gradient element on the wire; 0 = by precision
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const DdpOptions& options);

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
  v.field({.name = "sync_batch_norm",
           .doc = "Batch norms take their statistics over all ranks (SyncBatchNorm): everybody "
                  "waits for them in each, forward and backward."},
          o.sync_batch_norm);
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

}  // namespace lockstep
