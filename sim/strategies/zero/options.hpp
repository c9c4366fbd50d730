// Options of the strategy `zero` (ZeRO stages 1 and 2) in a scenario file. describe() declares the
// name, text, unit and range of each field; the file reader, the JSON Schema and the docs are
// generated from it (core/fields.hpp). docs/zero.md and the facts cited below explain the meaning.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/offload_options.hpp"
#include "strategies/options.hpp"

namespace lockstep {

// The collective that sums a bucket. After a reduce-scatter each rank has its shard; after an
// all-reduce every rank has all gradients, as in DDP (PyTorch's ZeroRedundancyOptimizer).
enum class GradientReduction { reduce_scatter, all_reduce };
template <>
struct EnumNames<GradientReduction> {
  static constexpr std::array names{"reduce-scatter", "all-reduce"};
};
// The part of the parameters that a rank updates: an equal number of elements, or whole tensors.
// by_reduction means tensors after an all-reduce, and elements after a reduce-scatter.
enum class StatePartition { by_reduction, elements, tensors };
template <>
struct EnumNames<StatePartition> {
  static constexpr std::array names{"by-reduction", "elements", "tensors"};
};
// When ranks gather the parameters that other ranks have updated: before the next step begins, or
// bucket by bucket while the next forward runs (Megatron's overlap_param_gather).
enum class ParameterGather { after_update, with_forward };
template <>
struct EnumNames<ParameterGather> {
  static constexpr std::array names{"after-update", "with-forward"};
};

// The options of one `zero` entry.
struct ZeroOptions {
  static constexpr const char* name = "zero";
  static constexpr const char* summary =
      "replicas whose optimizer state (stage 1) and gradients (stage 2) are sharded";
  static constexpr std::array forms{
      StrategyForm{"zero2", "ZeRO", "{stage: 2}", 1, true},
      StrategyForm{"zero2 offload", "ZeRO", "{stage: 2, offload: {optimizer: host}}", 1}};
  int stage = 1;                // fact 63; stage 3 is fsdp
  int shard_group = 0;          // number of ranks that share one copy of the state; 0 = all ranks
  double bucket_bytes = 100e6;  // a bucket is closed when it holds this much
  bool overlap = true;  // buckets are reduced while backward runs; false: backward waits for each
  GradientReduction reduction = GradientReduction::reduce_scatter;
  StatePartition partition = StatePartition::by_reduction;
  ParameterGather gather = ParameterGather::after_update;
  // Bytes of one gradient element, in memory and in messages; 0 = by the precision.
  double gradient_bytes = 0;
  OffloadOptions offload{};
};

class Strategy;
std::unique_ptr<Strategy> make_strategy(const ZeroOptions& options);

template <class Visitor>
void describe(Visitor& v, ZeroOptions& o) {
  v.field("stage", o.stage,
          "1: optimizer state is sharded; 2: gradients, too. (Stage 3 is `fsdp`.)",
          {.min = 1, .max = 2});
  v.field(
      "shard_group", o.shard_group,
      "Ranks that share one copy of the sharded state, for example the ranks of a node; 0 = all.",
      {.min = 0, .max = 1e6});
  v.field("bucket_size", o.bucket_bytes, "Gradients that are reduced together.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e12});
  v.field("overlap", o.overlap,
          "Reduce buckets while backward runs; false: backward waits for each.");
  v.field("reduction", o.reduction,
          "reduce-scatter: every rank receives its shard of the gradients; all-reduce: every rank "
          "receives all gradients, as under DDP (PyTorch's ZeroRedundancyOptimizer).");
  v.field("partition", o.partition,
          "Part that a rank updates. elements: an equal part of all elements; tensors: whole "
          "tensors, the largest first to the rank with the least (PyTorch's "
          "ZeroRedundancyOptimizer); by-reduction: tensors after an all-reduce, else elements.");
  v.field("gather", o.gather,
          "Moment at which ranks gather the updated parameters: after-update, or with-forward, "
          "bucket by bucket while the next forward runs (Megatron's overlap_param_gather).");
  v.field("gradient_element_size", o.gradient_bytes,
          "Bytes of one gradient element, kept and on the wire, 2 or 4; 0 B = by precision.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
  v.field("offload", o.offload, "ZeRO-Offload: the optimizer's state in the memory of the host.");
  v.check([&](auto report) {
    check_element_size(report, "gradient_element_size", o.gradient_bytes);
    if (o.offload.parameters != OffloadTier::device) {
      report("offload", "`parameters` are whole on every device under stages 1 and 2",
             "`fsdp` is stage 3");
    }
    if (o.offload.optimizer == OffloadTier::nvme) {
      report("offload", "`optimizer: nvme` is for stage 3, as in DeepSpeed", "`host`, or `fsdp`");
    }
    if (o.stage == 2 && o.reduction == GradientReduction::all_reduce) {
      report("reduction", "all-reduce leaves every rank all gradients", "stage: 1");
    }
    if (o.partition == StatePartition::tensors &&
        o.reduction == GradientReduction::reduce_scatter) {
      report("partition", "reduce-scatter cuts gradients into equal parts",
             "reduction: all-reduce");
    }
  });
}

}  // namespace lockstep
