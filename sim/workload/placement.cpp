// The rules of tensor parallelism by kind of operator: the placement of inputs that each kind
// needs, and the arguments that are divided among the ranks (Shoeybi et al. 2019; with sequence
// parallelism Korthikanti et al. 2022; shared key and value heads as in Megatron-LM, fact H30).
//
//   norm --whole--> gathered_for_product --> column product --split--> row product --partial-->
//     between_products (all-reduce, or reduce-scatter with sequence parallelism) --> norm ...
#include "workload/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "parallel/mesh.hpp"
#include "workload/checked.hpp"

namespace lockstep {

// Matches with backtracking. A star first takes as little text as possible, and one more character
// each time the rest does not fit. Only the last star ever has to grow, so the time is at most the
// product of the two lengths.
bool fits(std::string_view pattern, std::string_view text) {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t at = 0, i = 0, star = none, taken = 0;
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      taken = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != none) {
      at = star + 1;
      i = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == none;
}

namespace {

using Features = Placement::Features;

// Turns a call of the whole operator into that of one rank. prepared() chooses by kind. An unknown
// kind gets whole inputs, which is always correct but repeats its work on all ranks.
class RankCall {
 public:
  RankCall(const OpCall& call, const TensorPlan& plan)
      : call_(call), tensor_(call.step.options().parallel.tensor) {
    call_.cut = planned_cut(plan, call.name);
  }

  OpCall prepared() {
    const std::string& kind = call_.kind;
    if (kind == "linear") {
      linear();
    } else if (kind == "embedding") {
      embedding();
    } else if (kind == "attention") {
      attention();
    } else if (kind == "rotary") {
      rotary();
    } else if (kind == "rms_norm") {
      head_norm();
    } else if (kind == "layer_norm") {
      norm();
    } else if (kind == "dropout" || is_elementwise(kind)) {
      elementwise();
    } else if (kind == "add" || kind == "multiply") {
      join();
    } else if (kind == "append_to_heads") {
      append_to_heads();
    } else if (kind == "experts") {
      experts();
    } else if (kind == "cross_entropy") {
      if (!tensor_.split_loss || !is_split(call_.input())) gather_all();
    } else {
      gather_all();
    }
    return std::move(call_);
  }

 private:
  static bool is_split(const Value& value) { return value.placement.features == Features::split; }
  static bool is_elementwise(std::string_view kind) {
    static constexpr std::array kinds{
        "relu",      "relu6",       "leaky_relu", "sigmoid",         "tanh", "gelu", "silu",
        "hardswish", "hardsigmoid", "soft_cap",   "stochastic_depth"};
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  }

  [[noreturn]] void fail(const std::string& message, const std::string& hint) const {
    throw parallel_misfit(call_.step.options().parallel, "tensor",
                          fmt::format("{}: {}", call_.name, message), hint);
  }

  std::int64_t& argument(std::string_view name) {
    for (std::size_t i = 0; i < call_.specs->size(); ++i) {
      if (name == (*call_.specs)[i].name) return call_.integers[i];
    }
    fail(fmt::format("{} has no argument {}", call_.kind, name), "");
  }

  // Divides an argument among the ranks. An argument that was not given follows from one that is
  // divided.
  void divide(std::string_view name, const char* things) {
    std::int64_t& value = argument(name);
    if (value == not_given) return;
    if (value % tensor_.size != 0) {
      fail(fmt::format("{} GPUs cannot share {} {} evenly", tensor_.size, value, things),
           fmt::format("a number that divides {}", value));
    }
    value /= tensor_.size;
  }

  void gather_all() {
    for (Value& input : call_.inputs) input = gathered(call_, input);
  }

  // A column product needs the whole input and writes split outputs. A row product needs split
  // inputs, as a column product writes them. A product that the plan does not cut runs on all
  // ranks; if sequences are split, each rank computes its own tokens, and its weight gradients are
  // summands.
  void linear() {
    Value& input = call_.inputs.front();
    if (call_.cut == TensorCut::column) {
      divide("out", "outputs");
      input = gathered_for_product(call_, input);
    } else if (call_.cut == TensorCut::row) {
      if (!is_split(input)) {
        fail("the plan cuts its inputs, but they are not split",
             "a row product follows a column product");
      }
    } else if (call_.cut == TensorCut::vocabulary) {
      fail("the plan cuts a vocabulary, but this is a product", "column or row");
    } else {
      if (input.placement.features != Features::whole) input = gathered(call_, input);
      call_.sums_gradients_over_tensor = input.placement.tokens_split;
    }
  }

  // A rank has a range of the vocabulary's rows. Its output is a summand, which is zero for ids of
  // other ranks. The hint rounds the vocabulary up to a multiple of 128 that the ranks divide.
  void embedding() {
    if (call_.cut == TensorCut::none) return;
    if (call_.cut != TensorCut::vocabulary) {
      fail("the plan cuts a product, but this is an embedding", "vocabulary");
    }
    const std::int64_t rows = call_.integer("rows");
    const std::int64_t multiple = std::lcm(tensor_.size, std::int64_t{128});
    if (rows % tensor_.size != 0) {
      fail(fmt::format("{} GPUs cannot share a vocabulary of {} evenly", tensor_.size, rows),
           fmt::format("pad it: model_parameters: {{vocabulary: {}}}",
                       checked_multiply((rows - 1) / multiple + 1, multiple)));
    }
    divide("rows", "rows");
  }

  // Whether ranks share key and value heads because there are fewer heads than ranks. Only
  // Megatron-LM's fused projections support this (fact H30).
  bool shares_heads(std::int64_t heads) const {
    return tensor_.shared_exchanges && tensor_.size > heads && tensor_.size % heads == 0;
  }

  // Rotates the heads of a rank. Shared heads are gathered first, so that each rank rotates the one
  // head that it uses.
  void rotary() {
    Value& input = call_.inputs.front();
    const std::int64_t heads = call_.integer("heads");
    if (!is_split(input)) return gather_all();
    if (shares_heads(heads)) {
      input = heads_of_rank(call_, input, whole_features(input) / heads);
      argument("heads") = 1;
      return;
    }
    divide("heads", "attention heads");
  }

  std::int64_t whole_features(const Value& input) const {
    return checked_multiply(input.shape.back(), tensor_.size);
  }

  // Gathers keys and values of heads that several ranks share. One fused product wrote queries,
  // keys and values, so Megatron-LM also gathers the queries; then every rank takes the heads that
  // it needs.
  void share_heads() {
    std::vector<Value>& inputs = call_.inputs;
    if (inputs.size() == 1) {
      fail("one packed product cannot be shared by more GPUs than it has key and value heads",
           "at most as many GPUs as key and value heads");
    }
    const std::int64_t features = whole_features(inputs[0]) / call_.integer("heads");
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].shape.back() != features) inputs[i] = heads_of_rank(call_, inputs[i], features);
    }
    inputs[0] = heads_of_rank(call_, inputs[0], inputs[0].shape.back());
    argument("kv_heads") = 1;
  }

  // Either all of query, key and value must be split by heads, or none.
  void attention() {
    const bool split = is_split(call_.input());
    for (const Value& input : call_.inputs) {
      if (is_split(input) != split) {
        fail("some of query, key and value are split over heads, others are not",
             "the plan must cut all of these layers by columns, or none");
      }
    }
    if (!split) return gather_all();
    if (call_.given("kv_heads") && shares_heads(call_.integer("kv_heads"))) {
      share_heads();
    } else {
      divide("kv_heads", "key and value heads");
    }
    divide("heads", "attention heads");
  }

  // The first input is split by heads. The second is a part that all heads share: every rank needs
  // the whole part, and its gradients are summed over the ranks' heads.
  void append_to_heads() {
    if (!is_split(call_.input())) return gather_all();
    divide("heads", "attention heads");
    call_.inputs[1] = gathered_for_product(call_, call_.inputs[1]);
  }

  // Without expert parallelism the tensor ranks divide every expert's inner features, and every
  // rank processes all tokens. With expert parallelism each rank dispatches its own tokens, which
  // must differ from rank to rank, so sequence parallelism is required.
  void experts() {
    const ExpertOptions& expert = call_.step.options().parallel.expert;
    if (expert.size > 1) {
      if (!tensor_.sequence) {
        fail("experts of several GPUs get the tokens of each once, but all tensor ranks have all",
             "tensor: {sequence: true}");
      }
      for (Value& input : call_.inputs) input = between_products(call_, input);
      if (expert.tensor != 1) divide("inner", "features of an expert");
      return;
    }
    divide("inner", "features of an expert");
    call_.inputs[0] = gathered_for_product(call_, call_.inputs[0]);
    call_.inputs[1] = gathered_for_product(call_, call_.inputs[1]);
  }

  // Normalization of single heads works on a rank's split heads with a weight that all ranks have,
  // so the weight's gradient on a rank is a summand. Any other rms_norm is between products.
  void head_norm() {
    if (call_.integer("heads") == 0) return;
    if (!is_split(call_.input())) return norm();
    if (call_.integer("heads") == 1) {
      fail("it normalises features that are split", "a plan that cuts no product before it");
    }
    divide("heads", "heads");
    call_.sums_gradients_over_tensor = true;
  }

  // A norm needs all features of a token on one rank. Its weight gradient on a rank covers only the
  // rank's tokens.
  void norm() {
    Value& input = call_.inputs.front();
    if (is_split(input)) {
      fail("it normalises features that are split", "a plan that cuts no product before it");
    }
    input = between_products(call_, input);
    call_.sums_gradients_over_tensor = input.placement.tokens_split;
  }

  // Elementwise work takes its input in any placement, with two exceptions. Summands must be added
  // first, because a nonlinear function of a sum is not the sum of its values. A dropout is between
  // products, where sequence parallelism splits the tokens.
  void elementwise() {
    Value& input = call_.inputs.front();
    if (is_split(input)) return;
    const bool stays = call_.kind != "dropout" && input.placement.features == Features::whole;
    if (!stays) input = between_products(call_, input);
  }

  // Inputs of a join must have the same placement. Outside of blocks, a join of values that every
  // rank has whole is computed whole on every rank; the sum of token and position embeddings is
  // such a join. All other joins belong to the residual stream, which has the placement between
  // products.
  void join() {
    const auto everywhere = [](const Value& value) {
      return value.placement.features == Features::whole && !value.placement.tokens_split;
    };
    std::vector<Value>& inputs = call_.inputs;
    if (std::all_of(inputs.begin(), inputs.end(), is_split)) return;
    if (call_.block.empty() && std::any_of(inputs.begin(), inputs.end(), everywhere)) {
      return gather_all();
    }
    for (Value& input : inputs) input = between_products(call_, input);
  }

  OpCall call_;
  const TensorOptions& tensor_;
};

}  // namespace

TensorCut planned_cut(const TensorPlan& plan, const std::string& layer) {
  for (const auto& [pattern, cut] : plan) {
    if (fits(pattern, layer)) return cut;
  }
  return TensorCut::none;
}

OpCall of_one_rank(const OpCall& call, const TensorPlan& plan) {
  if (call.step.options().parallel.tensor.size == 1) return call;
  return RankCall(call, plan).prepared();
}

Placement result_placement(const OpCall& rank_call) {
  switch (rank_call.cut) {
    case TensorCut::column:
      return {Features::split, false};
    case TensorCut::row:
    case TensorCut::vocabulary:
      return {Features::partial, false};
    case TensorCut::none:
      break;
  }
  const bool shares_experts =
      rank_call.kind == "experts" && rank_call.step.options().parallel.expert.size == 1;
  if (shares_experts) return {Features::partial, false};
  return rank_call.kind == "cross_entropy" ? Placement{} : rank_call.input().placement;
}

Value whole_value(const Value& value, const ParallelOptions& parallel) {
  Value whole = value;
  if (value.shape.empty()) return whole;
  if (value.placement.features == Features::split) whole.shape.back() *= parallel.tensor.size;
  if (value.placement.tokens_split) whole.shape.front() *= parallel.tensor.size;
  if (value.is_sequence() || value.tokens) whole.shape.front() *= parallel.context.size;
  return whole;
}

}  // namespace lockstep
