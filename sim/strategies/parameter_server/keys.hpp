// Keys of a parameter server: the pieces of the model that are pushed and pulled as a whole, each
// with the server that holds it. A key is a trainable tensor, or a part of one. build.cpp calls
// make_keys() before it divides the keys into messages. Servers are numbered from 0.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strategies/parameter_server/options.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct Key {
  int layer = 0;   // index of the layer whose backward completes the gradient
  int tensor = 0;  // number of the trainable tensor, in definition order
  std::int64_t elements = 0;
  int server = 0;
  std::int64_t first = 0;  // index of the key's first element in the tensor
};

// The servers, and the rule by which keys are assigned to them.
struct KeyLayout {
  int servers = 1;
  KeyRule rule = KeyRule::split_large;
  std::int64_t partition_elements = 0;  // largest key; 0 = only the rule cuts tensors
  // Each of the last `own` servers gets `own_share` of the elements; the others share the rest
  // equally.
  int own = 0;
  double own_share = 0;

  // The share of all elements, 0 to 1, that the rule aims to give this server.
  double share(int server) const {
    if (own == 0) return 1.0 / servers;
    return server >= servers - own ? own_share : others_share();
  }
  // The sum of the shares of all servers with a smaller number.
  double share_before(int server) const {
    const int others = servers - own, before = server < others ? server : others;
    return before * others_share() + (server - before) * own_share;
  }
  // The share of each server that is not one of the last `own`. A remainder of rounding counts as
  // 0.
  double others_share() const {
    const double rest = 1 - own * own_share;
    return servers == own || rest < 1e-12 ? 0 : rest / (servers - own);
  }
};

// The share of the bytes of each of k machines without GPUs that are used besides n machines with
// GPUs, if all have equal links: 2 (n - 1) / (n^2 + k n - 2 k), for k <= n (BytePS; fact H127).
// With these shares the exchange is fastest: all links are busy for 2 n (n - 1) / (n^2 + k n - 2 k)
// times the transfer time of one model.
// REQUIRES: 1 <= gpu_machines, cpu_machines <= gpu_machines.
double share_of_cpu_machine(int gpu_machines, int cpu_machines);

// All keys in definition order. Together they contain every trainable element exactly once.
//   split_large  a tensor of at least a million elements is cut into one part for each server; a
//                smaller tensor goes to server (tensor number * 9973) mod S (MXNet kvstore; fact
//                72)
//   ranges       the concatenated elements are cut into S equal ranges (ps-lite; fact 71)
//   hash         djb2 of the decimal key number, mod S (BytePS; fact 75). The key number is
//                tensor number * 65536 + part number. Unequal shares are as in BytePS' mixed mode:
//                the hash mod 101 chooses between the last `own` servers and the others, and the
//                hash of this remainder chooses a server of that kind
//   balanced     the largest key first, to the server that holds the least of its share
// With `hash` and `balanced`, tensors are cut by partition_elements before the rule assigns keys;
// with the other rules, afterwards.
std::vector<Key> make_keys(const TrainingStep& step, const KeyLayout& layout);

// Number of elements on each server, by server.
std::vector<std::int64_t> elements_per_server(const std::vector<Key>& keys, int servers);

// Number of elements on the fullest server, divided by its share of all elements; 1 = as the layout
// aims.
double imbalance(const std::vector<Key>& keys, const KeyLayout& layout);

// D. J. Bernstein's hash of a text, by which BytePS places keys.
std::uint64_t djb2(std::string_view text);

}  // namespace lockstep
