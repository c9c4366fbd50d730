// Options of the strategy `ddp` in a scenario file. For each struct, one describe() declares the
// name, text, unit and range of its fields; the file reader, the JSON Schema and the docs are
// generated from it (core/fields.hpp). docs/ddp.md and the facts cited below explain the meaning.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <variant>

#include "core/fields.hpp"
#include "strategies/options.hpp"

namespace lockstep {

// The method that orthogonalises the columns of PowerSGD's factors.
enum class Orthogonalization {
  fused,         // one kernel for each column
  gram_schmidt,  // PyTorch's code: seven kernels for each column, for both factors (fact 21)
};
template <>
struct EnumNames<Orthogonalization> {
  static constexpr std::array names{"fused", "gram-schmidt"};
};
// The kernels that select the largest elements (pytorch pull request 71081).
enum class Selection {
  many_blocks,  // PyTorch from 1.12 on: the whole device reads; 8 of 32 bits in each pass
  one_block,    // PyTorch before 1.12: one multiprocessor reads; 2 bits in each pass
};
template <>
struct EnumNames<Selection> {
  static constexpr std::array names{"many-blocks", "one-block"};
};

// Each hook replaces the plain all-reduce of a bucket. All hooks keep unsent values for the next
// step (error feedback), except PlainHook, the two casts, SignHook and QsgdHook.
struct PlainHook {};  // the plain all-reduce
struct Fp16Hook {};   // gradients are cast to fp16 for the all-reduce (fact 20)
struct Bf16Hook {};   // gradients are cast to bf16 for the all-reduce (fact 20)
// Low-rank factors of each gradient matrix (fact 21).
struct PowerSgdHook {
  std::optional<int> rank;  // absent = DdpOptions::power_sgd_rank
  Orthogonalization orthogonalization = Orthogonalization::fused;
};
// Sends the largest elements. Ranks choose different places, so values and places are all-gathered.
struct TopKHook {
  double fraction = 0.01;  // number of sent elements divided by number of elements in a bucket
  Selection selection = Selection::many_blocks;
};
// Sends elements at random places. All ranks draw the same places from a common seed, so the values
// can be all-reduced.
struct RandomKHook {
  double fraction = 0.01;  // number of sent elements divided by number of elements in a bucket
};
struct SignHook {};    // signSGD with majority vote: one bit per element is all-gathered
struct QsgdHook {};    // one byte per element and one norm per bucket are all-gathered
struct OneBitHook {};  // 1-bit Adam's exchange, as in DeepSpeed
using CommHook = std::variant<PlainHook, Fp16Hook, Bf16Hook, PowerSgdHook, TopKHook, RandomKHook,
                              SignHook, QsgdHook, OneBitHook>;
template <>
struct AlternativeNames<CommHook> {
  static constexpr std::array names{"none",     "fp16-compress", "bf16-compress",
                                    "powersgd", "top-k",         "random-k",
                                    "sign",     "qsgd",          "onebit"};
};
template <class Visitor>
void describe(Visitor&, PlainHook&) {}
template <class Visitor>
void describe(Visitor&, Fp16Hook&) {}
template <class Visitor>
void describe(Visitor&, Bf16Hook&) {}
template <class Visitor>
void describe(Visitor& v, PowerSgdHook& h) {
  v.field("rank", h.rank, "Rank of the approximation. Left out: power_sgd_rank.",
          {.min = 1, .max = 1024});
  v.field("orthogonalization", h.orthogonalization,
          "fused: one kernel for each column of a factor; gram-schmidt: the kernels that PyTorch "
          "launches.");
}
template <class Visitor>
void describe(Visitor& v, TopKHook& h) {
  v.field("fraction", h.fraction, "Share of a bucket's elements that is sent.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
  v.field("selection", h.selection,
          "Kernels that find the largest elements. many-blocks: PyTorch from 1.12 on; one-block: "
          "before.");
}
template <class Visitor>
void describe(Visitor& v, RandomKHook& h) {
  v.field("fraction", h.fraction, "Share of a bucket's elements that is sent.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
}
template <class Visitor>
void describe(Visitor&, SignHook&) {}
template <class Visitor>
void describe(Visitor&, QsgdHook&) {}
template <class Visitor>
void describe(Visitor&, OneBitHook&) {}

// The rule that groups gradients into buckets.
struct BucketFusion {};  // PyTorch: buckets of bucket_size, equal in every step
// Horovod: the gradients that are ready when a background thread checks (fact H129).
struct HorovodFusion {
  double cycle = 1e-3;  // shortest time between two checks, in seconds (HOROVOD_CYCLE_TIME)
  // Largest bucket of several tensors, in bytes (HOROVOD_FUSION_THRESHOLD).
  double threshold = 128 * 1024.0 * 1024.0;
};
using GradientFusion = std::variant<BucketFusion, HorovodFusion>;
template <>
struct AlternativeNames<GradientFusion> {
  static constexpr std::array names{"buckets", "horovod"};
};
template <class Visitor>
void describe(Visitor&, BucketFusion&) {}
template <class Visitor>
void describe(Visitor& v, HorovodFusion& f) {
  v.field("cycle", f.cycle,
          "Shortest time between two looks of the background thread for ready gradients.",
          {.unit = Dimension::seconds, .min = 0, .max = 10});
  v.field("threshold", f.threshold,
          "Largest size of gradients that are reduced together; 0 B = each gradient by itself.",
          {.unit = Dimension::bytes, .min = 0, .max = 1e12});
}

// The options of one `ddp` entry.
struct DdpOptions {
  static constexpr const char* name = "ddp";
  static constexpr const char* summary =
      "replicas; gradients are all-reduced in buckets during backward";
  static constexpr std::array forms{
      StrategyForm{"ddp", "DDP", "{}"},
      StrategyForm{"ddp fp16", compressed_family, "{comm_hook: fp16-compress}", 1, true},
      StrategyForm{"ddp powersgd", compressed_family, "{comm_hook: {powersgd: {rank: 4}}}", 2,
                   true},
      StrategyForm{"ddp top-k", compressed_family, "{comm_hook: {top-k: {fraction: 1 %}}}", 2,
                   true}};
  double bucket_bytes = 25 * 1024.0 * 1024.0;   // bucket_cap_mb (fact 1)
  double first_bucket_bytes = 1024.0 * 1024.0;  // fact 1
  bool gradient_as_bucket_view = false;         // facts 13, 14
  bool broadcast_buffers = true;                // fact 15
  bool sync_batch_norm = false;                 // torch.nn.SyncBatchNorm
  bool find_unused_parameters = false;          // facts 4, 19
  bool static_graph = false;                    // fact 18
  GradientFusion fusion;
  CommHook comm_hook;      // facts 20, 21, H123, H125
  int power_sgd_rank = 1;  // fact 21
  // False: all buckets are reduced after backward (Megatron's local DDP, no_sync-like loops).
  bool overlap = true;
  double gradient_bytes = 0;  // bytes of a gradient element in messages; 0 = by the precision

  // Whether Horovod, not PyTorch's reducer, groups and reduces the gradients.
  bool horovod() const { return std::holds_alternative<HorovodFusion>(fusion); }
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const DdpOptions& options);

template <class Visitor>
void describe(Visitor& v, DdpOptions& o) {
  v.field("bucket_size", o.bucket_bytes,
          "A gradient bucket is closed when it holds this much (bucket_cap_mb).",
          {.unit = Dimension::bytes, .min = 1, .max = 1e12});
  v.field("first_bucket_size", o.first_bucket_bytes, "Size at which the first bucket is closed.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e12});
  v.field("gradient_as_bucket_view", o.gradient_as_bucket_view,
          "Gradients are views of the buckets: saves a copy of the gradients.");
  v.field("broadcast_buffers", o.broadcast_buffers,
          "Rank 0's buffers (batch norm statistics) are broadcast before every forward.");
  v.field("sync_batch_norm", o.sync_batch_norm,
          "Batch norms compute statistics over all ranks (SyncBatchNorm); every batch norm waits "
          "for all ranks, forward and backward.");
  v.field("find_unused_parameters", o.find_unused_parameters,
          "Search the graph for parameters without gradient; buckets are never rebuilt.");
  v.field("static_graph", o.static_graph, "The graph does not change between iterations.");
  v.field("comm_hook", o.comm_hook,
          "Compression of the gradients on the wire. Top-k, random-k, PowerSGD and onebit add the "
          "part that they did not send to the next step's gradients.");
  v.field("fusion", o.fusion,
          "Rule by which gradients travel together. buckets: PyTorch's buckets; horovod: all "
          "gradients that are ready when Horovod's background thread looks.");
  v.field("power_sgd_rank", o.power_sgd_rank,
          "Rank of PowerSGD's approximation, where comm_hook does not give it.",
          {.min = 1, .max = 1024});
  v.field("overlap", o.overlap,
          "Reduce buckets while backward runs; false: all buckets after backward.");
  v.field("gradient_element_size", o.gradient_bytes,
          "Bytes of one gradient element on the wire, 2 or 4; 0 B = by precision.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
  v.check([&](auto report) {
    check_element_size(report, "gradient_element_size", o.gradient_bytes);
    const auto* power = std::get_if<PowerSgdHook>(&o.comm_hook);
    if (power != nullptr && power->rank && o.power_sgd_rank != DdpOptions{}.power_sgd_rank) {
      report("power_sgd_rank", "contradicts comm_hook.powersgd.rank", "give one of them");
    }
    if (o.horovod() && !std::holds_alternative<PlainHook>(o.comm_hook) &&
        !std::holds_alternative<Fp16Hook>(o.comm_hook)) {
      report("comm_hook", "Horovod compresses to fp16 only", "allowed: none, fp16-compress");
    }
    if (o.horovod() && !o.overlap) {
      report("overlap", "Horovod reduces while backward runs", "true, or `fusion: buckets`");
    }
  });
}

}  // namespace lockstep
