// Options of the strategy `fsdp` in a scenario file. For each struct, one describe() declares the
// name, text, unit and range of its fields; the file reader, the JSON Schema and the docs are
// generated from it (core/fields.hpp). docs/fsdp.md and the facts cited below explain the meaning.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/offload_options.hpp"
#include "strategies/options.hpp"

namespace lockstep {

// PyTorch's sharding strategies (fact 28). full_shard and shard_grad_op shard over all ranks. The
// hybrid strategies shard within groups of ranks (by default a node) and all-reduce the shards of
// gradients between the groups:
//   full_shard          parameters are freed after forward and gathered again for backward (ZeRO-3)
//   shard_grad_op       parameters remain gathered from forward to backward (ZeRO-2)
//   no_shard            nothing is sharded: an all-reduce per unit
//   hybrid_shard        full_shard inside a group
//   hybrid_shard_zero2  shard_grad_op inside a group
enum class Sharding { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
template <>
struct EnumNames<Sharding> {
  static constexpr std::array names{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                    "hybrid_shard_zero2"};
};
// When the host of FSDP1 requests the next unit in backward: when the unit is needed (none), before
// the present unit computes (pre), or afterwards (post) (facts 36, 37).
enum class BackwardPrefetch { none, pre, post };
template <>
struct EnumNames<BackwardPrefetch> {
  static constexpr std::array names{"none", "pre", "post"};
};
// The rule that chooses the modules that become FSDP units (strategies/fsdp/units.hpp).
enum class WrapPolicy {
  automatic,       // size if min_parameters is given, otherwise block
  block,           // every repeated block; if the model has no blocks, as `size`
  block_and_ends,  // blocks, the layers before all blocks, and the layers after them (torchtitan)
  size,            // PyTorch's size_based_auto_wrap_policy
  none,            // the whole model is one unit
};
template <>
struct EnumNames<WrapPolicy> {
  static constexpr std::array names{"automatic", "block", "block_and_ends", "size", "none"};
};

struct WrapOptions {
  WrapPolicy policy = WrapPolicy::automatic;
  double min_parameters = 0;  // smallest unit of policy `size`; 0 = 1e8, PyTorch's default

  // Whether the repeated blocks of the model, if it has any, become units.
  bool by_block() const {
    return policy == WrapPolicy::block || policy == WrapPolicy::block_and_ends;
  }
};

// ZeRO++ (Wang et al. 2023) reduces the traffic between nodes. Comments begin with DeepSpeed's
// names.
struct ZeroPlusPlus {
  // zero_quantized_weights: parameters are gathered as int8.
  bool quantized_weights = false;
  // zero_hpz_partition_size: each node holds a sharded copy of the parameters, from which backward
  // gathers.
  bool secondary_shards = false;
  // zero_quantized_gradients: gradients are exchanged as int4, first in a node and then between
  // nodes.
  bool quantized_gradients = false;

  bool is_used() const { return quantized_weights || secondary_shards || quantized_gradients; }
};
template <class Visitor>
void describe(Visitor& v, ZeroPlusPlus& z) {
  v.field("quantized_weights", z.quantized_weights, "Parameters are gathered as int8.");
  v.field(
      "secondary_shards", z.secondary_shards,
      "Every node keeps a copy of the parameters, sharded over its GPUs, which backward gathers.");
  v.field("quantized_gradients", z.quantized_gradients,
          "Gradients are exchanged as int4: within nodes, added up, and between nodes.");
}

// The options of one `fsdp` entry.
struct FsdpOptions {
  static constexpr const char* name = "fsdp";
  static constexpr const char* summary =
      "parameters, gradients and optimizer state are sharded; gathered per unit";
  // hybrid_shard differs from full_shard only on several nodes. Version 1 has a higher complexity,
  // because PyTorch deprecates it.
  static constexpr std::array forms{
      StrategyForm{"fsdp2", "FSDP", "{version: 2}", 1, true},
      StrategyForm{"fsdp2 shard_grad_op", "FSDP", "{version: 2, sharding: shard_grad_op}", 1, true},
      StrategyForm{"fsdp2 hybrid_shard", "FSDP", "{version: 2, sharding: hybrid_shard}", 1, true,
                   true},
      StrategyForm{"fsdp2 offload", "FSDP", "{version: 2, cpu_offload: true}", 1},
      StrategyForm{"fsdp2 nvme", "FSDP",
                   "{version: 2, offload: {optimizer: nvme, parameters: nvme, overlap: true}}", 2,
                   false, false, true},
      StrategyForm{"fsdp1", "FSDP", "{version: 1}", 2, true}};
  int version = 1;  // 1 = FullyShardedDataParallel, 2 = fully_shard (facts 26-60)
  Sharding sharding = Sharding::full_shard;
  WrapOptions wrap;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = false;  // FSDP1 only (fact 31)
  bool limit_all_gathers = true;  // FSDP1 only (fact 34)
  bool cpu_offload = false;       // PyTorch's (facts 44, 59)
  OffloadOptions offload{};       // DeepSpeed's (facts H113, H115, H116)
  ZeroPlusPlus zeropp{};
  double gather_bytes = 0;  // bytes of one gathered element (param_dtype); 0 = by the precision
  double reduce_bytes = 0;  // bytes of one reduced element (reduce_dtype); 0 = gather_bytes
  bool autocast = false;    // in addition to mixed precision: norms and loss in fp32
  bool sync_every_micro_batch = true;  // false = no_sync while accumulating (fact 45)
  // FSDP2 in a pipeline (fact H45): true = units are resharded after each forward; false =
  // parameters are gathered once a step.
  bool reshard_in_pipeline = false;
  int shard_group = 0;  // number of ranks of a hybrid mode's shard group; 0 = one node
  // FSDP1 only: parameters are aligned to 16 bytes, and each has a view (fact 27).
  bool use_orig_params = false;

  // Whether shards of the parameters are stored outside the device between their uses.
  bool offloads_parameters() const {
    return cpu_offload || offload.parameters != OffloadTier::device;
  }
  // Share of the parameters that the host updates, 0 to 1.
  double offloaded_share() const {
    if (cpu_offload) return 1;
    return offload.is_used() ? offload.fraction : 0;
  }
};

template <class Visitor>
void describe(Visitor& v, WrapOptions& o) {
  v.field("policy", o.policy,
          "Modules that become units. block: repeated blocks; block_and_ends: also the layers "
          "before and after the blocks; size: modules of at least min_parameters; none: only the "
          "whole model; automatic: size if min_parameters is given, else block.");
  v.field("min_parameters", o.min_parameters,
          "Smallest unit of the size policy; 0 = 100M, PyTorch's default.",
          {.unit = Dimension::count, .min = 0, .max = 1e15});
}

class Strategy;
std::unique_ptr<Strategy> make_strategy(const FsdpOptions& options);

template <class Visitor>
void describe(Visitor& v, FsdpOptions& o) {
  v.field("version", o.version, "1 = FullyShardedDataParallel, 2 = fully_shard.",
          {.min = 1, .max = 2});
  v.field("sharding", o.sharding, "State that is sharded, and the ranks that share one copy.");
  v.field("wrap", o.wrap, "Modules that become FSDP units.");
  v.field("backward_prefetch", o.backward_prefetch,
          "Moment at which backward requests the all-gather of the next unit: before computing the "
          "present unit (pre), after it (post), or when the unit is needed (none). Version 2 is "
          "always pre.");
  v.field("forward_prefetch", o.forward_prefetch,
          "Forward requests the all-gather of the next unit before it computes the present one "
          "(version 1).");
  v.field("limit_all_gathers", o.limit_all_gathers,
          "The host waits so that at most two units are gathered ahead (version 1).");
  v.field("cpu_offload", o.cpu_offload,
          "Shards, their gradients and the optimizer live in host memory (PyTorch's CPUOffload).");
  v.field("offload", o.offload,
          "Tiers of the optimizer's state and of the shards, as DeepSpeed's ZeRO-3 and "
          "ZeRO-Infinity have "
          "them.");
  v.field("zeropp", o.zeropp, "ZeRO++: quantised exchanges and secondary shards.");
  v.field("gather_element_size", o.gather_bytes,
          "Bytes of one gathered parameter (param_dtype), 2 or 4; 0 B = by precision.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
  v.field("reduce_element_size", o.reduce_bytes,
          "Bytes of one reduced gradient (reduce_dtype), 2 or 4; 0 B = as gathered.",
          {.unit = Dimension::bytes, .min = 0, .max = 4});
  v.field(
      "autocast", o.autocast,
      "autocast around the model, besides the mixed precision of amp-*: norms and loss in fp32.");
  v.field("sync_every_micro_batch", o.sync_every_micro_batch,
          "Reduce gradients after every micro-batch; false: only after the last (no_sync).");
  v.field("reshard_in_pipeline", o.reshard_in_pipeline,
          "Under a pipeline, parameters are freed after each micro-batch's forward and gathered "
          "again for its backward; false: once a step (version 2).");
  v.field("shard_group", o.shard_group,
          "Ranks that share one copy in the hybrid modes; 0 = one node.", {.min = 0, .max = 1e6});
  v.field("use_orig_params", o.use_orig_params,
          "The optimizer sees the original parameters, not one flat tensor (version 1).");
  v.check([&](auto report) {
    if (o.offload.keep_master) {
      report("offload", "`keep_master` is for zero, as in Megatron-LM", "keep_master: false");
    }
    if (o.cpu_offload && (o.offload.is_used() || o.offload.parameters != OffloadTier::device)) {
      report("offload", "contradicts cpu_offload, which is PyTorch's own", "give one of them");
    }
    const bool full = o.version == 2 && o.sharding == Sharding::full_shard;
    if (o.zeropp.is_used() && !full) {
      report("zeropp", "is ZeRO-3's, which shards everything over all ranks",
             "`version: 2` and `sharding: full_shard`");
    }
    check_element_size(report, "gather_element_size", o.gather_bytes);
    check_element_size(report, "reduce_element_size", o.reduce_bytes);
  });
}

}  // namespace lockstep
