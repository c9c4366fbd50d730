// What a user can say about each strategy in a scenario file. The describe() declarations (names,
// ranges, docs) are in strategies/options_fields.hpp; semantics in docs/strategies.md and the facts
// cited at each field.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>

#include "core/fields.hpp"

namespace lockstep {

enum class CommHook { none, fp16_compress, bf16_compress, power_sgd };
template <>
struct EnumNames<CommHook> {
  static constexpr std::array names{"none", "fp16-compress", "bf16-compress", "powersgd"};
};

struct DdpOptions {
  double bucket_bytes = 25 * 1024.0 * 1024.0;   // bucket_cap_mb (fact 1)
  double first_bucket_bytes = 1024.0 * 1024.0;  // fact 1
  bool gradient_as_bucket_view = false;         // facts 13, 14
  bool broadcast_buffers = true;                // fact 15
  bool find_unused_parameters = false;          // facts 4, 19
  bool static_graph = false;                    // fact 18
  CommHook comm_hook = CommHook::none;          // facts 20, 21
  int power_sgd_rank = 1;                       // fact 21
  bool overlap = true;  // false: all buckets are reduced after backward (Megatron's local DDP,
                        // no_sync-like loops)
  double gradient_bytes = 0;  // bytes per gradient element on the wire; 0 = by precision
};

enum class Sharding { full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
template <>
struct EnumNames<Sharding> {
  static constexpr std::array names{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                    "hybrid_shard_zero2"};
};
enum class BackwardPrefetch { none, pre, post };
template <>
struct EnumNames<BackwardPrefetch> {
  static constexpr std::array names{"none", "pre", "post"};
};
// Which modules become FSDP units of their own (strategies/units.hpp).
enum class WrapPolicy {
  automatic,  // size when min_parameters is given, else block
  block,      // every repeated block; models without blocks fall back to `size`
  size,       // PyTorch's size_based_auto_wrap_policy
  none,       // the whole model is one unit
};
template <>
struct EnumNames<WrapPolicy> {
  static constexpr std::array names{"automatic", "block", "size", "none"};
};

struct WrapOptions {
  WrapPolicy policy = WrapPolicy::automatic;
  double min_parameters = 0;  // 0 = 1e8, the default of size_based_auto_wrap_policy
};

struct FsdpOptions {
  int version = 1;  // 1 = FullyShardedDataParallel, 2 = fully_shard (facts 26-60)
  Sharding sharding = Sharding::full_shard;
  WrapOptions wrap;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::pre;
  bool forward_prefetch = false;
  bool limit_all_gathers = true;  // FSDP1 only (fact 34)
  bool cpu_offload = false;       // facts 44, 59
  double gather_bytes = 0;        // bytes per element gathered (param_dtype); 0 = by precision
  double reduce_bytes = 0;  // bytes per element reduce-scattered (reduce_dtype); 0 = gather_bytes
  bool sync_every_micro_batch = true;  // false = no_sync while accumulating (fact 45)
  int shard_group = 0;                 // ranks per shard group of the hybrid modes; 0 = one node
  bool use_orig_params =
      false;  // FSDP1 only: 16-byte alignment and views of every parameter (fact 27)
};

enum class Consistency { sync, async, ssp };
template <>
struct EnumNames<Consistency> {
  static constexpr std::array names{"sync", "async", "ssp"};
};
enum class ServerPlacement { cpu, gpu, worker_host };
template <>
struct EnumNames<ServerPlacement> {
  static constexpr std::array names{"cpu", "gpu", "worker-host"};
};

// Which server keeps which key (strategies/keys.hpp says how each rule works).
enum class KeyRule {
  split_large,  // MXNet: tensors of a million elements and more over all servers, others hashed
                // (fact 72)
  ranges,       // ps-lite: S equal contiguous ranges of the parameters (fact 71)
  hash,         // BytePS: each key hashed (djb2) to one server (fact 75)
  balanced,     // largest key first, to the server that holds least
};
template <>
struct EnumNames<KeyRule> {
  static constexpr std::array names{"split-large", "ranges", "hash", "balanced"};
};

struct ParameterServerOptions {
  Consistency consistency = Consistency::sync;  // facts 68, 69, 83
  int servers = 1;
  int staleness_bound = 3;  // ssp only: s of fact 83
  ServerPlacement placement = ServerPlacement::cpu;
  KeyRule keys = KeyRule::split_large;
  double partition_bytes =
      0;  // keys are cut into parts of this size; 0 = one key per tensor (facts 72, 75)
  bool overlap = false;      // push each key as soon as its gradient is ready
  bool serial = false;       // a server handles one message at a time, its transfer included
  double element_bytes = 0;  // bytes per element on the wire; 0 = by precision
};

using StrategyOptions = std::variant<DdpOptions, FsdpOptions, ParameterServerOptions>;
template <>
struct AlternativeNames<StrategyOptions> {
  static constexpr std::array names{"ddp", "fsdp", "parameter_server"};
};

// Distribution of a multiplicative slow-down, at least 1 on average near 1.
enum class JitterKind { none, lognormal, exponential, pareto };
struct Lognormal {
  double sigma = 0.02;
};  // median 1
struct ShiftedExponential {
  double mean = 0.02;
};  // 1 + Exp(mean)
struct ParetoTail {
  double alpha = 3;
  double scale = 0.02;
};  // 1 + scale * (Pareto(alpha) - 1)
using Jitter = std::variant<Lognormal, ShiftedExponential, ParetoTail>;
template <>
struct AlternativeNames<Jitter> {
  static constexpr std::array names{"lognormal", "exponential", "pareto"};
};

struct SlowRank {
  int rank = 0;
  double factor = 1;  // device work takes this many times longer
  Location where = {};
};

}  // namespace lockstep
