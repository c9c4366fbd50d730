// FSDP units: which parameters are gathered, freed and reduced together. A wrapped module owns all
// parameters of its subtree that no nested unit owns; the rest belongs to the root (fact 26).
// Modules are read off the dotted names of layers and their blocks.
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
  bool stays = false;                 // gathered from forward to backward, as the root
  bool wide = false;                  // of layers that stay fp32 (Layer::wide)
  bool expert = false;                // experts, sharded over the ranks that hold the same ones
  int first = 0, last = 0;            // its module runs layers [first, last] of the step
  std::vector<int> layers;            // that hold parameters it owns, ascending
  std::vector<Parameter> parameters;  // in definition order

  double elements() const;  // of its parameters
  double trainable_elements() const;
  int trainable_tensors() const;
  // Mean bytes of an element, where a trained one takes so many.
  double mean_bytes(double element_bytes) const;
  double mean_gathered_bytes(double element_bytes) const;  // on their way to the unit
};

// In order of forward; the root first, if it owns anything. A model without parameters has no
// units. Parts of a model that a pipeline's rank holds (workload/joined_parts.hpp) have a root each, as PyTorch's
// stages are modules of their own.
//   block      every distinct Layer::block is a unit; a model without blocks is wrapped by size
//   block_and_ends  the same, and the layers before the blocks, and those after them: torchtitan's, but for
//   a head that is tied to the embedding, with which both are in the root
//   size       PyTorch's size_based_auto_wrap_policy: from the leaves up, a module becomes a unit
//   when
//              the parameters in it that are in no unit yet are at least min_parameters; never an
//              nn.ModuleList, which holds the blocks of models of tokens
//   none       the root alone
// Each layer that stays wide is a unit besides (FSDP1, torch/distributed/fsdp/_wrap_utils.py: _auto_wrap).
std::vector<FsdpUnit> make_units(const TrainingStep& step, const WrapOptions& wrap);

// How a unit is laid out over `ranks` (facts 27, 46).
struct UnitLayout {
  double elements = 0;  // of all ranks together, padding included
  double shard = 0;     // of one rank: elements / ranks
  double trained = 1;   // share of the elements that have gradients
};

// FSDP1: the flat parameter is padded to a multiple of `ranks`; with `aligned_elements` > 0 every
// parameter starts at a multiple of so many elements. FSDP2: dimension 0 of every parameter is
// padded.
UnitLayout flat_layout(const FsdpUnit& unit, int ranks, std::int64_t aligned_elements = 0);
UnitLayout per_parameter_layout(const FsdpUnit& unit, int ranks);

}  // namespace lockstep
