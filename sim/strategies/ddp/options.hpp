// What a user can say about DDP in a scenario file. Semantics: docs/strategies.md and the facts cited
// at each field.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/options.hpp"

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
  static constexpr std::array forms{StrategyForm{"ddp", "DDP", "{}"}};
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
  v.field("bucket_size", o.bucket_bytes,
          "A gradient bucket is closed when it holds this much (bucket_cap_mb).",
          {.unit = Dimension::bytes, .min = 1, .max = 1e12});
  v.field("first_bucket_size", o.first_bucket_bytes,
          "The same for the bucket that is reduced first.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e12});
  v.field("gradient_as_bucket_view", o.gradient_as_bucket_view,
          "Gradients are views of the buckets: saves a copy of the gradients.");
  v.field("broadcast_buffers", o.broadcast_buffers,
          "Rank 0's buffers (batch norm statistics) are broadcast before every forward.");
  v.field("sync_batch_norm", o.sync_batch_norm,
          "Batch norms take their statistics over all ranks (SyncBatchNorm): everybody waits for "
          "them in each, forward and backward.");
  v.field("find_unused_parameters", o.find_unused_parameters,
          "Search the graph for parameters without gradient; buckets are never rebuilt.");
  v.field("static_graph", o.static_graph, "The graph does not change between iterations.");
  v.field("comm_hook", o.comm_hook, "Compression of the gradients on the wire.");
  v.field("power_sgd_rank", o.power_sgd_rank, "Rank of PowerSGD's approximation.",
          {.min = 1, .max = 1024});
  v.field("overlap", o.overlap,
          "Reduce buckets while backward runs; false: all of them after backward.");
  v.field("gradient_element_size", o.gradient_bytes,
          "Bytes of one gradient element on the wire, 2 or 4; 0 B = by precision.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
  v.check(
      [&](auto report) { check_element_size(report, "gradient_element_size", o.gradient_bytes); });
}

}  // namespace lockstep
