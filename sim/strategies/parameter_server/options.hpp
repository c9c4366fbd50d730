// What a user can say about parameter servers in a scenario file. Semantics: docs/strategies.md and
// the facts cited at each field.
#pragma once

#include <array>
#include <memory>

#include "core/fields.hpp"
#include "strategies/common/element_size.hpp"

namespace lockstep {

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

// Which server keeps which key (strategies/parameter_server/keys.hpp says how each rule works).
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
  static constexpr const char* name = "parameter_server";
  static constexpr const char* summary = "workers push gradients to servers: sync, async or ssp";
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

class Strategy;
std::unique_ptr<Strategy> make_strategy(const ParameterServerOptions& options);

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

}  // namespace lockstep
