// Chooses the places at which a model is cut into parts of about equal work. Models of repeated
// blocks are cut by counting blocks, as Megatron-LM and torchtitan do. Others are cut by dynamic
// programming over the clean places (partition.hpp), which minimises the FLOPs of the largest part.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "workload/partition.hpp"

namespace lockstep {
namespace {

// First layers of the repeated blocks; if blocks are nested, of the outermost ones.
struct Blocks {
  std::vector<int> first;
  int end = 0;    // the layer after the last block
  int lists = 0;  // number of `repeat`s that contain a block
};

// Blocks belong to one list if their paths differ only in the last component: "layers.0",
// "layers.1".
Blocks find_blocks(const TrainingStep& step) {
  Blocks blocks;
  std::string current, list;
  for (int i = 0; i < static_cast<int>(step.layers.size()); ++i) {
    const std::string& block = step.layers[static_cast<std::size_t>(i)].block;
    if (!block.empty()) blocks.end = i + 1;
    const bool inside = !current.empty() && (block == current || block.starts_with(current + "."));
    if (block.empty() || inside) continue;
    const std::size_t dot = block.rfind('.');
    const std::string of = dot == std::string::npos ? "" : block.substr(0, dot);
    if (blocks.first.empty() || of != list) ++blocks.lists;
    current = block;
    list = of;
    blocks.first.push_back(i);
  }
  return blocks;
}

// Number of blocks of each part: equal numbers, or the numbers that torchtitan chooses.
std::vector<int> spread(int blocks, int parts) {
  std::vector<int> counts(static_cast<std::size_t>(parts), blocks / parts);
  if (blocks % parts == 0) return counts;
  const int weights = blocks + 2;  // the embedding and the head count as one block each
  for (int part = 0; part < parts; ++part) {
    counts[static_cast<std::size_t>(part)] = weights / parts + (part < weights % parts ? 1 : 0) -
                                             (part == 0 ? 1 : 0) - (part + 1 == parts ? 1 : 0);
  }
  return counts;
}

// First layers of the parts, computed from their numbers of blocks.
std::vector<int> cuts_of_counts(const Blocks& blocks, const std::vector<int>& counts) {
  std::vector<int> cuts{0};
  std::size_t block = 0;
  for (std::size_t part = 0; part + 1 < counts.size(); ++part) {
    block += static_cast<std::size_t>(counts[part]);
    cuts.push_back(block < blocks.first.size() ? blocks.first[block] : blocks.end);
  }
  return cuts;
}

double flops_of(const Layer& layer) {
  double flops = 0;
  for (const Kernel& kernel : layer.forward) flops += model_flops(kernel);
  for (const Kernel& kernel : layer.backward) flops += model_flops(kernel);
  return flops;
}

// Chooses `parts` - 1 of the clean places such that the largest part has the fewest FLOPs. Among
// several such choices, takes the one with the smallest sum of squares, which is the most even.
// Dynamic programming in O(parts x places^2).
std::vector<int> cuts_of_flops(const TrainingStep& step, int parts, const Location& where) {
  std::vector<int> places = clean_places(step);
  places.insert(places.begin(), 0);
  if (static_cast<int>(places.size()) < parts) {
    throw partition_misfit(where, fmt::format("{} cannot be cut into {} parts", step.model, parts),
                           fmt::format("it has places for {}", places.size()));
  }
  places.push_back(static_cast<int>(step.layers.size()));
  std::vector<double> before{0};  // FLOPs before each layer
  for (const Layer& layer : step.layers) before.push_back(before.back() + flops_of(layer));

  struct Choice {
    double largest = std::numeric_limits<double>::infinity(), squares = 0;
    std::size_t from = 0;
    bool operator<(const Choice& other) const {
      return std::pair(largest, squares) < std::pair(other.largest, other.squares);
    }
  };
  // best[part][i]: the best choice for parts 0 to `part` if part `part` ends at place i; it begins
  // at place `from`.
  std::vector<std::vector<Choice>> best(static_cast<std::size_t>(parts),
                                        std::vector<Choice>(places.size()));
  const auto work = [&](std::size_t from, std::size_t to) {
    return before[static_cast<std::size_t>(places[to])] -
           before[static_cast<std::size_t>(places[from])];
  };
  for (std::size_t to = 1; to < places.size(); ++to) {
    best[0][to] = {work(0, to), work(0, to) * work(0, to), 0};
  }
  for (std::size_t part = 1; part < best.size(); ++part) {
    for (std::size_t to = part + 1; to < places.size(); ++to) {
      for (std::size_t from = part; from < to; ++from) {
        const Choice& head = best[part - 1][from];
        const double last = work(from, to);
        const Choice choice{std::max(head.largest, last), head.squares + last * last, from};
        if (choice < best[part][to]) best[part][to] = choice;
      }
    }
  }
  // Follows the choices back from the end of the model.
  std::vector<int> cuts(best.size());
  std::size_t place = places.size() - 1;
  for (std::size_t part = best.size(); part-- > 0;) {
    place = best[part][place].from;
    cuts[part] = places[place];
  }
  return cuts;
}

// The numbers of blocks from the scenario. Checks that there is one for each part and that they use
// every block.
std::vector<int> listed(const TrainingStep& step, const PipelineOptions& options, int parts,
                        std::size_t blocks, const Location& where) {
  const std::vector<int> counts(options.layers.begin(), options.layers.end());
  if (static_cast<int>(counts.size()) != parts) {
    throw partition_misfit(
        where, fmt::format("{} numbers for {} parts of the model", counts.size(), parts),
        "a number for each chunk of each stage, in the order of layers");
  }
  const int sum = std::accumulate(counts.begin(), counts.end(), 0);
  if (sum != static_cast<int>(blocks)) {
    throw partition_misfit(
        where, fmt::format("the parts have {} blocks together, {} has {}", sum, step.model, blocks),
        "leave it out for parts as even as can be");
  }
  return counts;
}

}  // namespace

std::vector<int> even_cuts(const TrainingStep& step, const PipelineOptions& options, int parts,
                           const Location& where) {
  const Blocks blocks = find_blocks(step);
  if (!options.layers.empty()) {
    return cuts_of_counts(blocks, listed(step, options, parts, blocks.first.size(), where));
  }
  if (parts == 1) return {0};
  if (blocks.lists != 1) return cuts_of_flops(step, parts, where);
  const int count = static_cast<int>(blocks.first.size());
  if (count < parts) {
    throw partition_misfit(
        where, fmt::format("{} has {} blocks, {} parts need one each", step.model, count, parts),
        fmt::format("stages x chunks up to {}", count));
  }
  return cuts_of_counts(blocks, spread(count, parts));
}

}  // namespace lockstep
