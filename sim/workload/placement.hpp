// Prepares one use of an operator for one rank of a mesh: arguments become the rank's part, inputs come
// to lie as the operator wants them, by exchanges that are layers of their own.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/ops.hpp"

namespace lockstep {

using TensorPlan = std::vector<std::pair<std::string, TensorCut>>;

// `*` in the pattern is any text.
bool fits(std::string_view pattern, std::string_view text);
// The cut of the first pattern that fits a layer's name; `*` is any text.
TensorCut planned_cut(const TensorPlan& plan, const std::string& layer);

// The operator as one rank runs it. Writes the exchanges that its inputs need. Throws ConfigError,
// located at `parallel`, when the model cannot be cut like that.
OpCall of_one_rank(const OpCall& call, const TensorPlan& plan);
// How the operator's result lies.
Placement result_placement(const OpCall& rank_call);
// The value with the sizes it has without a mesh.
Value whole_value(const Value& value, const ParallelOptions& parallel);

// Exchanges of workload/exchanges.cpp. Each returns the value as it has arrived; asked for the same
// again, it returns the same. `reader` is the layer that wants it.

// Every rank gets all of the value, for work that all ranks repeat.
Value gathered(const OpCall& reader, const Value& value);
// Every rank gets all of the value for a product whose outputs are split: in backward the ranks'
// gradients are summed.
Value gathered_for_product(const OpCall& reader, const Value& value);
// The ranks' parts are put together, and every rank takes the heads that its queries need: fewer
// heads than ranks (Megatron-LM, transformer/attention.py: get_query_key_value_tensors; fact H30).
Value heads_of_rank(const OpCall& reader, const Value& value, std::int64_t features);
// Between products: every rank has its tokens where sequences are split, all of them otherwise.
Value between_products(const OpCall& reader, const Value& value);

}  // namespace lockstep
