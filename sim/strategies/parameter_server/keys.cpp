// Sharding rules of published parameter servers (see keys.hpp).
#include "strategies/parameter_server/keys.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace lockstep {

namespace {

constexpr std::int64_t kLargeTensor =
    1'000'000;  // MXNET_KVSTORE_BIGARRAY_BOUND's default (fact 72)

// Trainable tensors as keys of server 0.
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

// The tensor's elements below end(0) go to server 0, the next ones below end(1) to server 1, and so
// on.
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

std::vector<Key> split_large(const std::vector<Key>& tensors, int servers) {
  std::vector<Key> keys;
  for (const Key& tensor : tensors) {
    if (tensor.elements < kLargeTensor) {
      keys.push_back(tensor);
      keys.back().server = static_cast<int>(tensor.tensor * std::int64_t{9973} % servers);
    } else {
      spread(
          tensor, servers, [&](int server) { return tensor.elements * (server + 1) / servers; },
          keys);
    }
  }
  return keys;
}

std::vector<Key> equal_ranges(const std::vector<Key>& tensors, int servers) {
  std::int64_t total = 0, position = 0;  // of a tensor in the concatenation
  for (const Key& tensor : tensors) total += tensor.elements;
  std::vector<Key> keys;
  for (const Key& tensor : tensors) {
    spread(
        tensor, servers, [&](int server) { return total * (server + 1) / servers - position; },
        keys);
    position += tensor.elements;
  }
  return keys;
}

void assign_by_hash(std::vector<Key>& keys, int servers) {
  int part = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    part = i > 0 && keys[i].tensor == keys[i - 1].tensor ? part + 1 : 0;
    const std::int64_t number = keys[i].tensor * std::int64_t{65536} + part;
    keys[i].server =
        static_cast<int>(djb2(std::to_string(number)) % static_cast<std::uint64_t>(servers));
  }
}

void assign_balanced(std::vector<Key>& keys, int servers) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return keys[a].elements > keys[b].elements;
  });
  std::vector<std::int64_t> held(static_cast<std::size_t>(servers), 0);
  for (const std::size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    keys[i].server = static_cast<int>(least - held.begin());
    *least += keys[i].elements;
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
    return cut(split_large(tensors, layout.servers), layout.partition_elements);
  }
  if (layout.rule == KeyRule::ranges) {
    return cut(equal_ranges(tensors, layout.servers), layout.partition_elements);
  }
  std::vector<Key> keys = cut(tensors, layout.partition_elements);
  (layout.rule == KeyRule::hash ? assign_by_hash : assign_balanced)(keys, layout.servers);
  return keys;
}

std::vector<std::int64_t> elements_per_server(const std::vector<Key>& keys, int servers) {
  std::vector<std::int64_t> held(static_cast<std::size_t>(servers), 0);
  for (const Key& key : keys) held[static_cast<std::size_t>(key.server)] += key.elements;
  return held;
}

double imbalance(const std::vector<Key>& keys, int servers) {
  const std::vector<std::int64_t> held = elements_per_server(keys, servers);
  const std::int64_t total = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  if (total == 0) return 1;
  return static_cast<double>(*std::max_element(held.begin(), held.end())) * servers /
         static_cast<double>(total);
}

}  // namespace lockstep
