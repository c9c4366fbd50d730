// The table of operators that a model file may use: name, arguments, and the rule (a function) that
// writes an operator's layers with their shapes, parameters, kernels and saved tensors. expand.cpp
// evaluates the arguments and calls the rule once per use. docs/model-format.md lists all
// operators; a test compares the list with the table.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workload/builder.hpp"
#include "workload/expression.hpp"

namespace lockstep {

// The dimension along which the tensor ranks divide a layer's weight (Shoeybi et al. 2019). A
// column product is followed by elementwise work on each rank's part of the features, and then by a
// row product, whose outputs are summed over the ranks.
enum class TensorCut : std::uint8_t {
  none,        // every rank has the whole weight
  column,      // of a product: its outputs
  row,         // of a product: its inputs
  vocabulary,  // of an embedding: its rows
};
template <>
struct EnumNames<TensorCut> {
  static constexpr std::array names{"none", "column", "row", "vocabulary"};
};

// Syntax of an argument: an integer expression, a truth value (also an expression), a number in 0
// <= p < 1, or a word.
enum class ArgumentType { integer, flag, probability, word };

// Declaration of one argument of an operator. `min` and `max` bound integers and flags.
struct ArgumentSpec {
  const char* name;
  ArgumentType type = ArgumentType::integer;
  bool required = false;
  std::int64_t fallback = 0;
  std::int64_t min = 0;
  std::int64_t max = std::int64_t{1} << 40;
  std::vector<std::string> words = {};  // allowed words; the first is the default; empty = any
};

// One use of an operator: evaluated arguments, input values and name. A rule reads it and writes
// layers into `step`.
struct OpCall {
  StepBuilder& step;
  std::string name;   // full path of the layer
  std::string kind;   // the operator's name
  std::string block;  // innermost enclosing repeated block
  std::vector<Value> inputs;
  const std::vector<ArgumentSpec>* specs = nullptr;
  std::vector<std::int64_t> integers = {};  // by position in specs; probabilities in millionths
  std::vector<std::string> words = {};
  TensorCut cut = TensorCut::none;
  bool sums_gradients_over_tensor = false;  // parameter gradients are summands over tensor ranks

  // Value of an argument: a flag is 0 or 1, a probability is in millionths.
  // REQUIRES: the operator's table row has the argument.
  std::int64_t integer(std::string_view argument) const;
  // False only if the model file leaves the argument out and its fallback is `not_given`.
  bool given(std::string_view argument) const;
  const std::string& word(std::string_view argument) const;
  const Value& input() const { return inputs.front(); }
  LayerWriter layer() const;  // begins a layer with the arguments as its attributes
  // A call for another leaf module at the same place in the network, called "NAME.suffix", without
  // arguments. Operators that consist of several layers use it.
  OpCall child(const std::string& suffix, const std::string& child_kind,
               std::vector<Value> child_inputs) const;
};

// Fallback of an argument that no user can write, so that a rule knows that the argument was not
// given.
inline constexpr std::int64_t not_given = INT64_MIN;

// One row of the operator table.
struct OpSpec {
  const char* name;
  std::vector<ArgumentSpec> arguments;
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  // The rule. Writes the layers and returns the operator's result. Throws ModelError if the inputs
  // do not fit.
  Value (*emit)(const OpCall&);
};

const std::vector<OpSpec>& op_table();
const OpSpec* find_op(std::string_view name);  // nullptr if there is none

// The functions below are rules, or parts of rules, that other rules reuse.

// Arguments of a convolution; sizes in pixels.
struct ConvShape {
  std::int64_t out = 1, kernel_h = 1, kernel_w = 1, stride = 1, padding_h = 0, padding_w = 0,
               dilation = 1, groups = 1;
  bool bias = true;
};
Value emit_conv(const OpCall& call, const ConvShape& shape);
// Writes a low-rank adapter (LoRA) beside a linear layer and adds its output to `frozen`, the
// output of that layer. `linear` is the rule that writes the adapter's two products.
Value emit_adapter(const OpCall& call, const Value& frozen, Value (*linear)(const OpCall&));
// Writes the activation that `call.kind` names, not in place.
Value emit_activation(const OpCall& call);

std::vector<OpSpec> matmul_ops();       // conv, linear, squeeze_excite
std::vector<OpSpec> norm_ops();         // batch_norm, layer_norm, rms_norm, group_norm, layer_scale
std::vector<OpSpec> elementwise_ops();  // activations, dropout, soft_cap, add, multiply, ...
std::vector<OpSpec> pooling_ops();      // pooling and shape changes
std::vector<OpSpec> token_ops();        // embeddings, tokens, loss
std::vector<OpSpec> attention_ops();    // attention
std::vector<OpSpec> rotary_ops();       // rotary, append_to_heads
std::vector<OpSpec> window_ops();       // windows of an image, attention inside them
std::vector<OpSpec> expert_ops();       // mixture of experts

// Dimensions of one attention. `query` heads of queries share `key` heads of keys and values; a
// head has `size` features; each of `samples` samples has `tokens` tokens.
struct Heads {
  std::int64_t query = 0, key = 0, size = 0, tokens = 0, samples = 0;
  std::int64_t value = 0;   // features of a head of the values, if they differ from `size`; else 0
  std::int64_t before = 0;  // earlier tokens of the sequence, whose keys and values are in memory
  std::int64_t value_size() const { return value != 0 ? value : size; }
  std::int64_t keys() const { return before + tokens; }  // keys for one query, masked ones included
  // The share of the pairs of queries and keys that a causal mask leaves: all earlier tokens, and
  // half of the pairs within `tokens`.
  double causal_share() const { return (before + 0.5 * tokens) / keys(); }
};
// Options of attention whose scores are written to memory ("eager" attention).
struct ScoreRule {
  bool causal = false;
  bool dropout = false;
  bool fused_softmax = false;  // Megatron-LM's kernel, see docs/model-format.md
  bool upcast = false;         // the softmax works on fp32 copies of the scores
  // One fused product computes queries, keys and values, and rotary positions copy the queries and
  // keys. The values are a view that keeps the whole product in memory.
  bool one_product = false;
  int additions = 0;          // number of biases and masks that are added to the scores
  bool learned_bias = false;  // the last addition has a gradient, which is summed over the samples
};
// Writes attention whose scores are in memory into `layer`. `out` is the size in bytes of the
// output, which the caller declares.
void emit_scores(LayerWriter& layer, const Heads& heads, const ScoreRule& rule, double out);
// Writes the backward of query, key and value that are selected by index from one tensor of `bytes`
// bytes. Each selection gives a gradient of the whole tensor, which is zero except for its third,
// and the three gradients are added (torch's select_backward).
void emit_picked_gradients(LayerWriter& layer, double bytes);

// Attention over the ranks of the context axis in rounds: in each round a rank's queries meet the
// keys of one rank (ops_context.cpp). Throws ConfigError at `parallel.context`.
Value emit_rounds(const OpCall& call, const Heads& heads, bool causal);
// Attention over the ranks of the context axis by all-to-alls: `attention` computes all tokens and
// a part of the heads. Throws ConfigError at `parallel.context`.
Value emit_turned(const OpCall& call, Value (*attention)(const OpCall&));

// Imbalance of experts over ranks (expert_load.cpp).
struct RankLoad {
  // `fullest`: tokens of the fullest rank over the mean of all ranks. `dropped`: share (0 .. 1) of
  // the router's choices that find their expert full.
  double fullest = 1, dropped = 0;
};
// Throws ConfigError at `parallel.expert.load` if the scenario lists shares that are all zero or
// whose number is not `experts`.
RankLoad rank_load(const ParallelOptions& parallel, std::int64_t experts);

// Throws ModelError unless the inputs of `experts` are tokens, and a router output with one logit
// per token and expert.
void require_routing(const OpCall& call);
// Writes the experts of a rank as grouped products, between exchanges of tokens
// (ops_grouped_experts.cpp).
Value emit_grouped_experts(const OpCall& call);

// Joins of branches. `in_place`: the sum overwrites the first input.
Value emit_add(const OpCall& call, bool in_place);
Value emit_multiply(const OpCall& call);
Value emit_concat(const OpCall& call);

std::string shape_text(const Value& value);  // "512 x 7 x 7"
// The first function throws ModelError unless the first input is an image with channels first, the
// second unless the last dimension of the first input holds the features.
void require_image(const OpCall& call);
void require_features(const OpCall& call);

}  // namespace lockstep
