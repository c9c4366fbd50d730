// Prepares one use of an operator for one tensor-parallel rank. Arguments (heads, outputs) become
// the rank's share, and exchange layers bring the inputs into the placement that the operator
// needs. expand.cpp calls this between evaluating an operator and calling its rule (ops.hpp), so
// the rule sees only the sizes of one rank.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workload/ops.hpp"

namespace lockstep {

using TensorPlan = std::vector<std::pair<std::string, TensorCut>>;

// Whether the whole text matches the pattern; `*` in the pattern matches any text, also none.
bool fits(std::string_view pattern, std::string_view text);
// The cut of the first pattern that fits the layer's name; none if no pattern fits.
TensorCut planned_cut(const TensorPlan& plan, const std::string& layer);

// The operator as one rank runs it; unchanged without tensor parallelism. Writes the exchanges that
// its inputs need. Throws ConfigError, located at `parallel`, if the plan does not suit the
// operator or the ranks do not divide a size.
OpCall of_one_rank(const OpCall& call, const TensorPlan& plan);
// The placement of the result of a call from of_one_rank().
Placement result_placement(const OpCall& rank_call);
// The value with the sizes that it has without a mesh.
Value whole_value(const Value& value, const ParallelOptions& parallel);

// Exchanges (exchanges.cpp). Each function writes an exchange layer and returns the value that
// arrives. It writes none if the value already has the right placement (an exception is at
// gathered_for_product()), or if an earlier reader has the same exchange. `reader` is the layer
// that reads the value.

// Gives every rank the whole value, for work that all ranks repeat.
Value gathered(const OpCall& reader, const Value& value);
// Gives every rank the whole value, for a product whose outputs are split. The gradient on each
// rank is then a summand, so backward sums the gradients over the ranks. A value that is already
// whole therefore also gets an exchange layer, if it requires a gradient.
Value gathered_for_product(const OpCall& reader, const Value& value);
// Gathers the ranks' parts and gives every rank the `features` features of the heads that its
// queries need. Used if there are fewer key and value heads than ranks (Megatron-LM,
// transformer/attention.py: get_query_key_value_tensors; fact H30).
Value heads_of_rank(const OpCall& reader, const Value& value, std::int64_t features);
// Brings a value into the placement between two blocks of products: with sequence parallelism every
// rank has its tokens of a sequence, otherwise every rank has the whole value.
Value between_products(const OpCall& reader, const Value& value);

}  // namespace lockstep
