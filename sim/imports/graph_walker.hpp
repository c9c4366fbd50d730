// The walk over a graph's nodes that makes a model file (graph_model.hpp): its rules, a function for
// each kind of operator, and what they share. Private to graph_*.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "imports/graph_expression.hpp"
#include "imports/graph_model.hpp"
#include "imports/layer_list.hpp"

namespace lockstep::graph_walk {

using Shape = std::vector<std::int64_t>;

enum class Form { image, image_last, sequence, vector, tokens };

// What a value of the graph is to the model.
struct Traced {
  enum class Kind {
    unknown,     // after an operator that is not known
    layer,       // a layer's output, perhaps viewed otherwise
    expression,  // of a layer's output
    parameter,
    constant,  // known without the input
    table,     // rows of an embedding that do not depend on the input: positions
    noise,     // coins for stochastic depth
    scores,    // of attention written out
    weights,   // their softmax
    list       // of parts
  };
  Kind kind = Kind::constant;
  std::string layer;  // whose output; of an expression, of the queries
  int part = -1;      // of a packed projection: queries, keys, values
  Shape shape;        // as the graph has it
  GraphExpression expression = {};
  const GraphNode* node = nullptr;        // an expression's first
  const GraphValue* parameter = nullptr;  // parameter, table
  double p = 0;                           // noise: share that survives
  std::string key_layer = {};             // scores, weights
  int key_part = -1;
  bool masked = false;  // scores, weights; a constant: made by comparing positions
  bool dropped = false;
};
using Kind = Traced::Kind;

inline constexpr const char* shapes_hint =
    "export with torch.onnx.export(..., dynamo=True), or add shapes with onnx.shape_inference";

// "layer1.0.conv1.weight" belongs to layer1.0.conv1, "attn.in_proj_weight" to attn.in_proj.
std::string owner_of(const std::string& parameter);

class Walker {
 public:
  explicit Walker(const Graph& graph);
  ImportedModel run();

 private:
  struct LayerInfo {
    std::size_t place = 0;
    Form form = Form::image;
    std::int64_t features = 0;  // of a linear layer; 0 = as its input
  };
  using Rule = void (Walker::*)(const GraphNode&);

  // --- graph_model.cpp: what comes in, and what a node makes of it
  Traced begin(const GraphValue& value);
  const Traced& in(const GraphNode& node, std::size_t index);
  bool given(const GraphNode& node, std::size_t index) const {
    return index < node.inputs.size() && !node.inputs[index].empty();
  }
  void give(const GraphNode& node, Traced traced);
  [[noreturn]] void fail(const GraphNode& node, const std::string& what,
                         const std::string& hint = "") const;
  void refuse_unknown() const;
  std::string unique(const std::string& wanted);
  // After the module that runs the node, where it is a leaf.
  std::string name_at(const GraphNode& node, const std::string& op) const;
  // After the parameter, unless an exporter made the name up.
  std::string named_after(const GraphNode& node, const Traced& parameter,
                          const std::string& op) const;
  Traced emit(const GraphNode& node, const std::string& name, const std::string& op,
              const std::string& arguments, std::vector<std::string> from, Form form);
  Form form_of(const Traced& traced) const { return info_.at(traced.layer).form; }
  // The layer behind a value; an expression becomes one now.
  Traced layer(const GraphNode& node, std::size_t index);
  std::int64_t features_of(const Traced& traced) const;
  // A module's parameter; error where the graph computes the tensor.
  const Traced& weight(const GraphNode& node, std::size_t index);
  // The shape of what has at least `least` dimensions.
  const Shape& sizes(const GraphNode& node, const Traced& x, std::size_t least) const;
  static const std::map<std::string, Rule>& rules();
  void visit(const GraphNode& node);
  ImportedModel model();
  std::vector<ListedLayer> needed() const;

  // --- graph_layers.cpp: operators that are layers
  void conv(const GraphNode& node);
  Traced emit_linear(const GraphNode& node, const Traced& x, const Traced& w, std::int64_t out,
                     bool bias);
  void linear(const GraphNode& node);
  // bias, input, weight (in x out unless transposed), as aten::addmm.
  void gemm(const GraphNode& node);
  void norm(const GraphNode& node);
  void activate(const GraphNode& node, const std::string& op);
  void activation(const GraphNode& node);
  void clip(const GraphNode& node);
  void dropout(const GraphNode& node);
  void noise(const GraphNode& node);
  void pool(const GraphNode& node);
  void adaptive_pool(const GraphNode& node);
  void mean(const GraphNode& node);

  // --- graph_arithmetic.cpp: sums and products, alone or as parts of a layer
  static Traced extended(const Traced& x, const GraphNode& node);
  void part_of_expression(const GraphNode& node);
  void arithmetic(const GraphNode& node);
  // Of scores and masks, coins and their scale, tables and types of tokens.
  static Traced other_than_layers(const Traced& a, const Traced& b);
  void with_parameter(const GraphNode& node, std::size_t at, const Traced& a, const Traced& b);
  void add_positions(const GraphNode& node, std::size_t at, const Traced& table, bool lookup);
  void join(const GraphNode& node);

  // --- graph_views.cpp
  void same(const GraphNode& node);
  void view(const GraphNode& node);
  std::vector<std::int64_t> order_of(const GraphNode& node, std::size_t rank) const;
  void permute(const GraphNode& node);
  // One of what `parts` gave, one index of a dimension, or a range of one.
  void part(const GraphNode& node);
  void parts(const GraphNode& node);
  void concat(const GraphNode& node);

  // --- graph_attention.cpp: tokens, and attention in one operator or written out
  struct Projection {
    std::string layer;
    int part = -1;
    Shape shape = {};
  };
  void embedding(const GraphNode& node);
  void matmul(const GraphNode& node);
  // `merged`: heads lie beside the batch, as in nn.MultiheadAttention.
  Traced emit_attention(const GraphNode& node, const Projection& q, const Projection& k,
                        const Projection& v, bool merged, const Shape& value_shape, bool masked,
                        bool dropped);
  std::string attention_name(const GraphNode& node) const;
  void attention(const GraphNode& node);
  // where(condition, scores, -inf), masked_fill(scores, condition, -inf)
  void mask(const GraphNode& node);
  void softmax(const GraphNode& node);

  const Graph& graph_;
  const GraphValue* input_ = nullptr;
  std::map<std::string, Traced> traced_;
  std::vector<ListedLayer> layers_;
  std::map<std::string, LayerInfo> info_;
  std::map<std::string, int> used_;
  std::map<std::string, std::string> tables_;  // parameter of an embedding, its layer
  std::set<std::string> tokens_first_;         // linear layers on tokens x samples x features
  std::set<std::string> parents_;              // modules that have modules
  std::map<std::string, std::vector<const GraphNode*>> unknown_;
};

}  // namespace lockstep::graph_walk
