// The operators a model file may use, their arguments, and the rule of each: shapes, parameters,
// kernels, saved tensors. docs/model-format.md lists them (a test compares).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workload/builder.hpp"
#include "workload/expression.hpp"

namespace lockstep {

// How a layer's weight is cut over the ranks of the tensor axis.
enum class TensorCut : std::uint8_t {
  none,        // every rank has all of it
  column,      // of a product: its outputs
  row,         // of a product: its inputs
  vocabulary,  // of an embedding: its rows
};
template <>
struct EnumNames<TensorCut> {
  static constexpr std::array names{"none", "column", "row", "vocabulary"};
};

enum class ArgumentType { integer, flag, probability, word };

struct ArgumentSpec {
  const char* name;
  ArgumentType type = ArgumentType::integer;
  bool required = false;
  std::int64_t fallback = 0;
  std::int64_t min = 0;
  std::int64_t max = std::int64_t{1} << 40;
  std::vector<std::string> words = {};  // allowed words; the first is the default; empty = any
};

// One evaluated use of an operator.
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
  bool sums_gradients_over_tensor = false;  // of all its parameters

  std::int64_t integer(std::string_view argument) const;
  bool given(std::string_view argument) const;
  const std::string& word(std::string_view argument) const;
  const Value& input() const { return inputs.front(); }
  LayerWriter layer() const;  // with the arguments as its attributes
  // The same place in the model, another leaf module: for operators made of several layers.
  OpCall child(const std::string& suffix, const std::string& child_kind,
               std::vector<Value> child_inputs) const;
};

// Stands for "not given" in OpCall::integers.
inline constexpr std::int64_t not_given = INT64_MIN;

struct OpSpec {
  const char* name;
  std::vector<ArgumentSpec> arguments;
  std::size_t min_inputs = 1;
  std::size_t max_inputs = 1;
  Value (*emit)(const OpCall&);
};

const std::vector<OpSpec>& op_table();
const OpSpec* find_op(std::string_view name);

// Rules that other rules reuse.
struct ConvShape {
  std::int64_t out = 1, kernel_h = 1, kernel_w = 1, stride = 1, padding_h = 0, padding_w = 0,
               dilation = 1, groups = 1;
  bool bias = true;
};
Value emit_conv(const OpCall& call, const ConvShape& shape);
// The sum of a linear layer's output and its adapter's; `linear` writes the two products.
Value emit_adapter(const OpCall& call, const Value& frozen, Value (*linear)(const OpCall&));
Value emit_activation(const OpCall& call);  // by call.kind, not in place

std::vector<OpSpec> matmul_ops();       // conv, linear, squeeze_excite
std::vector<OpSpec> norm_ops();         // batch_norm, layer_norm, rms_norm, group_norm, layer_scale
std::vector<OpSpec> elementwise_ops();  // activations, dropout, soft_cap, add, multiply, ...
std::vector<OpSpec> pooling_ops();      // pooling and shape changes
std::vector<OpSpec> token_ops();        // embeddings, tokens, loss
std::vector<OpSpec> attention_ops();    // attention
std::vector<OpSpec> rotary_ops();       // rotary, append_to_heads
std::vector<OpSpec> window_ops();       // windows of an image, attention inside them
std::vector<OpSpec> expert_ops();       // mixture of experts

struct Heads {
  std::int64_t query = 0, key = 0, size = 0, tokens = 0, samples = 0;
  std::int64_t value = 0;   // features of a head of the values, where they are others than `size`
  std::int64_t before = 0;  // tokens whose keys and values are there already
  std::int64_t value_size() const { return value != 0 ? value : size; }
  std::int64_t keys() const { return before + tokens; }  // that a query meets, or a mask hides
  // The share of the pairs of queries and keys that a causal mask leaves.
  double causal_share() const { return (before + 0.5 * tokens) / keys(); }
};
// What happens between the two products of attention whose scores are written to memory.
struct ScoreRule {
  bool causal = false;
  bool dropout = false;
  bool fused_softmax = false;  // Megatron-LM's kernel, see docs/model-format.md
  bool upcast = false;         // the softmax is one of fp32 copies of the scores
  bool one_product =
      false;          // gives queries, keys and values, of which rotary positions make copies
  int additions = 0;  // of biases and masks to the scores
  bool learned_bias = false;  // the last of these has a gradient: a sum over the samples
};
// Writes that attention into `layer`, whose output it does not declare: `out` bytes.
void emit_scores(LayerWriter& layer, const Heads& heads, const ScoreRule& rule, double out);
// Backward of query, key and value picked by their index out of one tensor of so many bytes: each gives a
// gradient of the whole, zeros but for its third, and the three are added (torch's select_backward).
void emit_picked_gradients(LayerWriter& layer, double bytes);

// Attention over the ranks of the context axis (ops_context.cpp): in rounds, one for each rank's keys; or
// as `attention` of all tokens and a part of the heads. Throws ConfigError at `parallel.context`.
Value emit_rounds(const OpCall& call, const Heads& heads, bool causal);
Value emit_turned(const OpCall& call, Value (*attention)(const OpCall&));

// Tokens of the rank whose experts get most of them, in those of a mean rank; share of the router's choices that
// find their expert full. Throws ConfigError at `parallel.expert.load` when the model has other experts.
struct RankLoad {
  double fullest = 1, dropped = 0;
};
RankLoad rank_load(const ParallelOptions& parallel, std::int64_t experts);

// Mixture of experts. Throws ModelError when tokens and router do not go together.
void require_routing(const OpCall& call);
// The experts of a rank as grouped products, between exchanges of tokens (ops_grouped_experts.cpp).
Value emit_grouped_experts(const OpCall& call);

// Where several branches or references meet. In place: the sum overwrites the first input.
Value emit_add(const OpCall& call, bool in_place);
Value emit_multiply(const OpCall& call);
Value emit_concat(const OpCall& call);

std::string shape_text(const Value& value);  // "512 x 7 x 7"
void require_image(const OpCall& call);
void require_features(const OpCall& call);  // the last dimension holds the features

}  // namespace lockstep
