// Rules of published parameter servers that assign keys to servers: MXNet kvstore (split-large),
// ps-lite (ranges), BytePS (hash), and the greedy longest-processing-time rule (balanced). Servers
// may have unequal shares (KeyLayout::own), as in BytePS if it uses machines without GPUs.
#include "strategies/parameter_server/keys.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "core/index.hpp"

namespace lockstep {

namespace {

constexpr std::int64_t kLargeTensor =
    1'000'000;  // MXNET_KVSTORE_BIGARRAY_BOUND's default (fact 72)

// All trainable tensors in definition order, each as one key. The server is not set.
std::vector<Key> whole_tensors(const TrainingStep& step) {
  std::vector<Key> keys;
  for (std::size_t layer = 0; layer < step.layers.size(); ++layer) {
    for (const Parameter& parameter : step.layers[layer].parameters) {
      if (!parameter.trainable || parameter.count == 0) continue;
      keys.push_back(
          {static_cast<int>(layer), static_cast<int>(keys.size()), parameter.count, 0, 0});
    }
  }
  return keys;
}

// Cuts each key into parts of at most `longest` elements; 0 = keys stay whole. All parts of a key
// remain on its server.
std::vector<Key> cut(const std::vector<Key>& keys, std::int64_t longest) {
  if (longest <= 0) return keys;
  std::vector<Key> parts;
  for (const Key& key : keys) {
    for (std::int64_t from = 0; from < key.elements; from += longest) {
      const std::int64_t elements = std::min(longest, key.elements - from);
      parts.push_back({key.layer, key.tensor, elements, key.server, key.first + from});
    }
  }
  return parts;
}

// Appends one key for each server that gets a part of the tensor. The elements below end(0) go to
// server 0, the elements from end(0) to end(1) to server 1, and so on.
template <class End>
void spread(const Key& tensor, int servers, const End& end, std::vector<Key>& keys) {
  std::int64_t from = 0;
  for (int server = 0; server < servers; ++server) {
    const std::int64_t to = std::min(tensor.elements, end(server));
    if (to <= from) continue;
    keys.push_back({tensor.layer, tensor.tensor, to - from, server, from});
    from = to;
  }
}

// The index at which the server's range ends, if `elements` elements are cut into one range for
// each server. Equal shares are computed in integers, as in MXNet and ps-lite.
std::int64_t end_of_share(const KeyLayout& layout, int server, std::int64_t elements) {
  if (server + 1 == layout.servers) return elements;
  if (layout.own == 0) return elements * (server + 1) / layout.servers;
  return std::llround(static_cast<double>(elements) * layout.share_before(server + 1));
}

// MXNet: large tensors are cut into parts for all servers; small tensors are hashed by their number
// (fact 72).
std::vector<Key> split_large(const std::vector<Key>& tensors, const KeyLayout& layout) {
  // Servers with a share of 0 get no small tensors either.
  const int first = layout.others_share() == 0 ? layout.servers - layout.own : 0;
  std::vector<Key> keys;
  for (const Key& tensor : tensors) {
    if (tensor.elements < kLargeTensor) {
      keys.push_back(tensor);
      keys.back().server =
          first + static_cast<int>(tensor.tensor * std::int64_t{9973} % (layout.servers - first));
    } else {
      spread(
          tensor, layout.servers,
          [&](int server) { return end_of_share(layout, server, tensor.elements); }, keys);
    }
  }
  return keys;
}

// ps-lite: the concatenation of all tensors is cut into one range for each server (fact 71).
std::vector<Key> ranges(const std::vector<Key>& tensors, const KeyLayout& layout) {
  std::int64_t total = 0, position = 0;  // `position`: index of the tensor's first element
  for (const Key& tensor : tensors) total += tensor.elements;
  std::vector<Key> keys;
  for (const Key& tensor : tensors) {
    spread(
        tensor, layout.servers,
        [&](int server) { return end_of_share(layout, server, total) - position; }, keys);
    position += tensor.elements;
  }
  return keys;
}

// BytePS' default: djb2 of the decimal number, mod the number of servers (fact 75).
int hashed(std::int64_t number, int servers) {
  return static_cast<int>(djb2(std::to_string(number)) % static_cast<std::uint64_t>(servers));
}

// BytePS' Hash_Mixed_Mode (byteps/common/global.cc); 101 is the default of BYTEPS_MIXED_MODE_BOUND.
// A key goes to one of the last `own` servers if its hash mod the bound is below own * own_share *
// bound, which is true for about this share of all keys. Otherwise it goes to one of the other
// servers.
int hashed_by_share(std::int64_t number, const KeyLayout& layout) {
  const int bound = std::max(101, layout.servers), others = layout.servers - layout.own;
  const int place = hashed(number, bound);
  const bool own = place < layout.own * layout.own_share * bound;
  return own ? others + hashed(place, layout.own) : hashed(place, others);
}

// Parts of a tensor are numbered from 0. The tensor and the part together determine the hashed
// number.
void assign_by_hash(std::vector<Key>& keys, const KeyLayout& layout) {
  int part = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    part = i > 0 && keys[i].tensor == keys[i - 1].tensor ? part + 1 : 0;
    const std::int64_t number = keys[i].tensor * std::int64_t{65536} + part;
    keys[i].server =
        layout.own == 0 ? hashed(number, layout.servers) : hashed_by_share(number, layout);
  }
}

// Longest processing time first: keys in descending order of size, each to the server that holds
// the least. The number of elements on a server is divided by the server's share, so that all
// servers fill up at the same rate. Servers with a share of 0 count as full.
void assign_balanced(std::vector<Key>& keys, const KeyLayout& layout) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return keys[a].elements > keys[b].elements;
  });
  std::vector<double> share, held;  // `held` is in units of the share
  for (int server = 0; server < layout.servers; ++server) {
    share.push_back(layout.own == 0 ? 1 : layout.share(server));
    held.push_back(share.back() > 0 ? 0 : std::numeric_limits<double>::infinity());
  }
  for (const std::size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    keys[i].server = static_cast<int>(least - held.begin());
    *least += static_cast<double>(keys[i].elements) / share[at(keys[i].server)];
  }
}

}  // namespace

std::uint64_t djb2(std::string_view text) {
  std::uint64_t hash = 5381;
  for (const char c : text) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::vector<Key> make_keys(const TrainingStep& step, const KeyLayout& layout) {
  const std::vector<Key> tensors = whole_tensors(step);
  if (layout.rule == KeyRule::split_large) {
    return cut(split_large(tensors, layout), layout.partition_elements);
  }
  if (layout.rule == KeyRule::ranges) {
    return cut(ranges(tensors, layout), layout.partition_elements);
  }
  std::vector<Key> keys = cut(tensors, layout.partition_elements);
  (layout.rule == KeyRule::hash ? assign_by_hash : assign_balanced)(keys, layout);
  return keys;
}

std::vector<std::int64_t> elements_per_server(const std::vector<Key>& keys, int servers) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(servers), 0);
  for (const Key& key : keys) held[static_cast<std::size_t>(key.server)] += key.elements;
  return held;
}

double imbalance(const std::vector<Key>& keys, const KeyLayout& layout) {
  const std::vector<std::int64_t> held = elements_per_server(keys, layout.servers);
  const std::int64_t total = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  double worst = 0;
  for (int server = 0; server < layout.servers && total > 0; ++server) {
    const double here = static_cast<double>(held[at(server)]) / static_cast<double>(total);
    if (layout.share(server) > 0) worst = std::max(worst, here / layout.share(server));
  }
  return total == 0 ? 1 : worst;
}

double share_of_cpu_machine(int gpu_machines, int cpu_machines) {
  const double n = gpu_machines, k = cpu_machines;
  return gpu_machines == cpu_machines ? 1 / n : 2 * (n - 1) / (n * n + k * n - 2 * k);
}

}  // namespace lockstep
