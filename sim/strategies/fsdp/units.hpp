// FSDP units: parameters that are gathered, freed and reduced together. A wrapped module owns all
// parameters of its subtree that no nested unit owns; the root owns the rest (fact 26).
// fsdp_layout() makes the units. The tree of modules follows from the dotted names of layers and
// blocks.
//
// Example with policy block and the layers: embed | blocks.0.* | blocks.1.* | norm, head
//   units  ""        embed, norm, head (the root: gathered first, freed last)
//          blocks.0  its layers
//          blocks.1  its layers
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/fsdp/options.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct FsdpUnit {
  std::string module;  // dotted path; "" = the root
  bool root = false;
  bool stays = false;  // remains gathered from forward to backward, as the root does
  bool wide = false;   // its layers remain in fp32 (Layer::wide)
  // Holds experts, which are sharded over the ranks that hold the same experts.
  bool expert = false;
  // Its module runs the layers from `first` to `last` (included) of the step.
  int first = 0, last = 0;
  std::vector<int> layers;            // indices of the layers whose parameters it owns, ascending
  std::vector<Parameter> parameters;  // in definition order

  double elements() const;            // of all parameters
  double trainable_elements() const;  // of the parameters that have gradients
  int trainable_tensors() const;
  // Mean bytes of an element in memory if a trained element takes `element_bytes`. Frozen
  // parameters may be stored in other types (Parameter::stored_bytes).
  double mean_bytes(double element_bytes) const;
  // Mean bytes of an element in an all-gather if a trained element takes `element_bytes`.
  double mean_gathered_bytes(double element_bytes) const;
};

// The units in the order of forward; the root comes first if it owns any parameter. A model without
// parameters has no units. If a rank of a pipeline holds several parts of the model
// (workload/joined_parts.hpp), each part has its own root, because PyTorch's stages are separate
// modules. Policies:
//   block           every distinct Layer::block is a unit; without blocks, wrapped by `size`
//   block_and_ends  also the layers before all blocks, and the layers after them, as in torchtitan;
//                   if the head is tied to the embedding, both remain in the root
//   size            PyTorch's size_based_auto_wrap_policy, from the leaves up: a module becomes a
//                   unit if its parameters that are in no unit yet are at least min_parameters. An
//                   nn.ModuleList, which holds the blocks of token models, never becomes a unit
//   none            only the root
// In addition, each wide layer is a unit (FSDP1, torch/distributed/fsdp/_wrap_utils.py:
// _auto_wrap).
std::vector<FsdpUnit> make_units(const TrainingStep& step, const WrapOptions& wrap);

// The sizes of a unit that is sharded over some number of ranks (facts 27, 46).
struct UnitLayout {
  double elements = 0;  // on all ranks together, including padding
  double shard = 0;     // of one rank: elements / ranks
  double trained = 1;   // share of the elements that have gradients
};

// FSDP1: one flat parameter, padded to a multiple of `ranks`. If `aligned_elements` > 0, every
// parameter in it starts at a multiple of that number. Does not set `trained`.
UnitLayout flat_layout(const FsdpUnit& unit, int ranks, std::int64_t aligned_elements = 0);
// FSDP2: dimension 0 of every parameter is padded to a multiple of `ranks`. Does not set `trained`.
UnitLayout per_parameter_layout(const FsdpUnit& unit, int ranks);

}  // namespace lockstep
