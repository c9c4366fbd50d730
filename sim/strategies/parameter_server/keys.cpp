// Sharding rules of published parameter servers (see keys.hpp).
#include "strategies/parameter_server/keys.hpp"

#include <algorithm>
#include <cassert>
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
      keys.push_back({static_cast<int>(layer), static_cast<int>(keys.size()), parameter.count, 0});
    }
  }
  return keys;
}

std::vector<Key> cut(const std::vector<Key>& keys, std::int64_t longest) {
  if (longest <= 0) return keys;
  std::vector<Key> parts;
  for (const Key& key : keys) {
    for (std::int64_t from = 0; from < key.elements; from += longest) {
      Key part = key;
      part.elements = std::min(longest, key.elements - from);
      parts.push_back(part);
    }
  }
  return parts;
}

std::vector<Key> split_large(const std::vector<Key>& tensors, int servers) {
  std::vector<Key> keys;
  for (const Key& tensor : tensors) {
    if (tensor.elements < kLargeTensor) {
      keys.push_back(tensor);
      keys.back().server = static_cast<int>(tensor.tensor * std::int64_t{9973} % servers);
      continue;
    }
    std::int64_t from = 0;
    for (int server = 0; server < servers; ++server) {
      const std::int64_t to = tensor.elements * (server + 1) / servers;
      keys.push_back({tensor.layer, tensor.tensor, to - from, server});
      from = to;
    }
  }
  return keys;
}

std::vector<Key> equal_ranges(const std::vector<Key>& tensors, int servers) {
  std::int64_t total = 0;
  for (const Key& tensor : tensors) total += tensor.elements;
  std::vector<Key> keys;
  std::int64_t position = 0;  // of the next element in the concatenation
  int server = 0;
  for (const Key& tensor : tensors) {
    const std::int64_t end = position + tensor.elements;
    while (position < end) {
      while (server + 1 < servers && position >= total * (server + 1) / servers) ++server;
      const std::int64_t range_end = server + 1 < servers ? total * (server + 1) / servers : total;
      const std::int64_t to = std::min(end, range_end);
      keys.push_back({tensor.layer, tensor.tensor, to - position, server});
      position = to;
    }
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

std::vector<Key> keys_of(const TrainingStep& step, const KeyLayout& layout) {
  assert(layout.servers >= 1);
  const std::vector<Key> tensors = whole_tensors(step);
  switch (layout.rule) {
    case KeyRule::split_large:
      return cut(split_large(tensors, layout.servers), layout.partition_elements);
    case KeyRule::ranges:
      return cut(equal_ranges(tensors, layout.servers), layout.partition_elements);
    case KeyRule::hash: {
      std::vector<Key> keys = cut(tensors, layout.partition_elements);
      assign_by_hash(keys, layout.servers);
      return keys;
    }
    case KeyRule::balanced: {
      std::vector<Key> keys = cut(tensors, layout.partition_elements);
      assign_balanced(keys, layout.servers);
      return keys;
    }
  }
  return {};
}

}  // namespace

std::uint64_t djb2(std::string_view text) {
  std::uint64_t hash = 5381;
  for (const char c : text) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::vector<Key> make_keys(const TrainingStep& step, const KeyLayout& layout) {
  std::vector<Key> keys = keys_of(step, layout);
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i].tensor == keys[i - 1].tensor)
      keys[i].first = keys[i - 1].first + keys[i - 1].elements;
  }
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
