// Matches the operators of a traced step with the layers of the model. A trace has no module names,
// so the order decides: one pass goes through operators and layers together, and a table says which
// operators a kind of layer runs. Errors name the first operator that does not fit.
//
//   operators  conv2d  add_ batch_norm  relu_  max_pool2d ...
//   layers     conv1   bn1              relu   maxpool           add_ (a counter) goes to bn1
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "imports/trace.hpp"

namespace lockstep {
namespace {

// The operators that a kind of layer runs, without "aten::". No other kind runs `sure` operators. A
// `likely` operator begins this layer if the layer comes next, and is glue between layers
// otherwise. A layer that began with a likely operator may continue with operators of `inside`, for
// example attention that is written out, or Hugging Face's gelu_new. A layer of a `needed` kind
// must have an operator.
struct KindRule {
  const char* kind;
  bool needed;
  std::vector<const char*> sure, likely, inside = {};
};

// The names are ATen's. An operation has several names if versions and backends of PyTorch differ.
const std::vector<KindRule>& rules() {
  static const std::vector<KindRule> table{
      {"conv", true, {"conv2d", "convolution", "_convolution", "cudnn_convolution"}, {}},
      {"linear", true, {"linear", "addmm"}, {"matmul", "mm"}},
      {"batch_norm", true, {"batch_norm", "native_batch_norm", "cudnn_batch_norm"}, {}},
      {"layer_norm", true, {"layer_norm", "native_layer_norm"}, {}},
      {"group_norm", true, {"group_norm", "native_group_norm"}, {}},
      {"rms_norm",
       false,
       {"rms_norm", "_fused_rms_norm"},
       {"pow"},
       {"mean", "add", "rsqrt", "mul", "to", "_to_copy"}},
      {"relu", true, {"relu", "relu_"}, {"clamp_min"}},
      {"relu6", true, {"relu6", "relu6_", "hardtanh", "hardtanh_"}, {}},
      {"leaky_relu", true, {"leaky_relu", "leaky_relu_"}, {}},
      {"sigmoid", true, {"sigmoid", "sigmoid_"}, {}},
      {"tanh", true, {"tanh", "tanh_"}, {}},
      {"gelu", true, {"gelu", "gelu_"}, {"mul", "pow"}, {"mul", "pow", "add", "tanh"}},
      {"silu", true, {"silu", "silu_"}, {}},
      {"hardswish", true, {"hardswish", "hardswish_"}, {}},
      {"hardsigmoid", true, {"hardsigmoid", "hardsigmoid_"}, {}},
      {"max_pool", true, {"max_pool2d", "max_pool2d_with_indices"}, {}},
      {"avg_pool", true, {"avg_pool2d"}, {}},
      {"adaptive_avg_pool", true, {"adaptive_avg_pool2d"}, {"mean"}},
      {"embedding", true, {"embedding"}, {}},
      {"position_embedding", false, {}, {"embedding", "add", "add_"}, {"embedding", "add", "add_"}},
      {"to_tokens", false, {}, {"flatten", "reshape"}},
      {"class_token", false, {}, {"cat"}},
      {"select_token", false, {}, {"select"}},
      {"rotary", false, {}, {"mul"}, {"mul", "neg", "cat", "add"}},
      {"attention",
       true,
       {"scaled_dot_product_attention"},
       {"matmul", "bmm", "baddbmm"},
       {"matmul", "bmm", "baddbmm", "mul", "div", "add", "add_", "where", "masked_fill", "softmax",
        "to", "_to_copy", "dropout"}},
      {"cross_entropy", true, {"cross_entropy_loss"}, {"log_softmax", "nll_loss_nd", "nll_loss"}},
      {"dropout", false, {}, {"dropout", "dropout_", "native_dropout"}},
      {"add", true, {}, {"add", "add_"}},
      {"multiply", true, {}, {"mul", "mul_"}},
      {"layer_scale", false, {}, {"mul", "mul_"}},
      {"concat", true, {}, {"cat", "concat"}},
      {"stochastic_depth", false, {}, {"bernoulli_"}},
      {"flatten", false, {"flatten"}, {"view", "reshape", "_unsafe_view", "squeeze"}},
      {"permute", false, {}, {"permute"}},
  };
  return table;
}

bool contains(const std::vector<const char*>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The rule of a kind. A kind that is not in the table gets a rule without operators.
const KindRule& rule_of(const std::string& kind) {
  static const KindRule unknown{"", false, {}, {}};
  const auto found = std::find_if(rules().begin(), rules().end(),
                                  [&](const KindRule& rule) { return kind == rule.kind; });
  return found == rules().end() ? unknown : *found;
}

bool is_sure(std::string_view name) {
  return std::any_of(rules().begin(), rules().end(),
                     [&](const KindRule& rule) { return contains(rule.sure, name); });
}

// Whether an operator that no rule claims belongs to the next layer. Casts precede the layer whose
// input they convert. BatchNorm first counts its batches (with add_; in PyTorch before 1.10 with
// add).
bool belongs_to_next(std::string_view name, std::string_view next_kind) {
  return name == "to" || name == "_to_copy" || name == "add_" ||
         (name == "add" && next_kind == "batch_norm");
}

// Matches one step. All layers before `next_` have been matched or passed over; `current_` is the
// last matched layer.
class Matcher {
 public:
  Matcher(const TracedStep& traced, const TrainingStep& model, const std::string& file)
      : traced_(traced), model_(model), file_(file) {}

  LayerTimes match() {
    times_.forward.assign(model_.layers.size(), 0);
    times_.backward.assign(model_.layers.size(), 0);
    // Operators that belong to the next layer; they wait here until that layer is known.
    std::vector<const TracedOp*> waiting;
    for (const TracedOp& op : traced_.forward) {
      const std::string name = short_name(op);
      // In this case the operator begins or continues a layer.
      if (const auto layer = layer_of(op, name)) {
        for (const TracedOp* early : waiting) take(*early, *layer);
        waiting.clear();
        current_ = static_cast<std::ptrdiff_t>(*layer);
        next_ = *layer + 1;
        take(op, *layer);
      } else if (current_ >= 0 && next_ < model_.layers.size() &&
                 belongs_to_next(name, model_.layers[next_].kind)) {
        waiting.push_back(&op);
      } else if (current_ < 0) {
        times_.outside += op.seconds;
      } else {
        take(op, static_cast<std::size_t>(current_));
      }
    }
    // The forward pass is over: all remaining layers must be of kinds that may be silent.
    check_whole(*traced_.forward.back().event);
    for (; next_ < model_.layers.size(); ++next_) pass_over(next_, nullptr);
    backward();
    return std::move(times_);
  }

 private:
  static std::string short_name(const TracedOp& op) {
    const std::string& name = op.event->name;
    return name.starts_with("aten::") ? name.substr(6) : name;
  }

  [[noreturn]] void fail(const TraceEvent& event, const std::string& message,
                         const std::string& hint = "") const {
    throw ConfigError(
        Diagnostic{{file_, event.line, 1},
                   "",
                   fmt::format("{} at ts {:.3f}: {}", event.name, event.start, message),
                   hint});
  }

  std::string layer_text(std::size_t layer) const {
    return fmt::format("{} ({})", model_.layers[layer].name, model_.layers[layer].kind);
  }

  // Passes over a layer that had no operator. Fails if the layer's kind needs one; only a trace of
  // a forward pass may lack the loss. `instead` is the operator that came in the layer's place, or
  // null at the end.
  void pass_over(std::size_t layer, const TracedOp* instead) {
    const KindRule& rule = rule_of(model_.layers[layer].kind);
    const bool unjudged = model_.layers[layer].is_loss && traced_.backward.empty();
    if (!rule.needed || unjudged) {
      times_.silent.push_back(model_.layers[layer].name);
      return;
    }
    const std::string hint =
        fmt::format("is the trace of {} with --batch {}? docs/import.md says what must run",
                    model_.model, model_.samples);
    if (instead != nullptr)
      fail(*instead->event, fmt::format("the model has {} here", layer_text(layer)), hint);
    fail(*traced_.forward.back().event,
         fmt::format("the last forward operator, but the model goes on with {}", layer_text(layer)),
         hint);
  }

  // The layer to which the operator belongs, if it begins or continues one; nothing for glue. The
  // search begins at the next layer and stops at the first layer that needs an operator.
  std::optional<std::size_t> layer_of(const TracedOp& op, const std::string& name) {
    if (goes_on(op, name)) return static_cast<std::size_t>(current_);
    const bool sure = is_sure(name);
    for (std::size_t layer = next_; layer < model_.layers.size(); ++layer) {
      const KindRule& rule = rule_of(model_.layers[layer].kind);
      if (contains(rule.sure, name) || contains(rule.likely, name)) {
        check_whole(*op.event);
        for (std::size_t passed = next_; passed < layer; ++passed) pass_over(passed, &op);
        check_shape(op, layer);
        composite_ = !contains(rule.sure, name);
        return layer;
      }
      if (!rule.needed) continue;
      // This call throws, because the layer needs an operator.
      if (sure) pass_over(layer, &op);
      return std::nullopt;
    }
    if (sure)
      fail(*op.event, fmt::format("no layer of {} is left for it", model_.model),
           "is it the trace of another model?");
    return std::nullopt;
  }

  // Whether the operator continues the current layer: as a further part of a packed projection, or
  // as an operator of the kind's `inside`.
  bool goes_on(const TracedOp& op, const std::string& name) {
    if (current_ < 0) return false;
    if (rows_left_ > 0 && name == "linear" && has_weight(op) &&
        op.event->shapes[1][0] <= rows_left_) {
      rows_left_ -= op.event->shapes[1][0];
      return true;
    }
    const Layer& layer = model_.layers[static_cast<std::size_t>(current_)];
    return composite_ && contains(rule_of(layer.kind).inside, name);
  }

  // Fails if the current layer is a packed projection of which a part has not been seen.
  void check_whole(const TraceEvent& event) const {
    if (rows_left_ <= 0) return;
    const auto layer = static_cast<std::size_t>(current_);
    const auto& shape = model_.layers[layer].parameters[0].shape;
    fail(event,
         fmt::format("the weights before it have {} rows, but {} has {}", shape[0] - rows_left_,
                     layer_text(layer), shape[0]),
         "is it the trace of another model?");
  }

  static bool has_weight(const TracedOp& op) {
    const auto& shapes = op.event->shapes;
    return shapes.size() >= 2 && !shapes[0].empty() && !shapes[1].empty();
  }

  // Compares recorded shapes with the layer's, which reveals a trace of another model, input or
  // batch. The network may split one linear layer of the model into several with parts of its rows
  // (query, key and value).
  void check_shape(const TracedOp& op, std::size_t index) {
    const Layer& layer = model_.layers[index];
    const auto& shapes = op.event->shapes;
    times_.has_shapes = times_.has_shapes || has_weight(op);
    // embedding(weight, ids): ids are samples x tokens.
    if (layer.kind == "embedding" && has_weight(op) && shapes[1].size() == 2)
      check_batch(op, shapes[1][0]);
    // Inputs are samples x tokens x features, but nn.MultiheadAttention has the tokens first.
    if (layer.kind == "linear" && has_weight(op) && shapes[0].size() == 3)
      check_batch(op, shapes[0][1] == model_.samples ? shapes[0][1] : shapes[0][0]);
    const bool weighted = layer.kind == "conv" || layer.kind == "linear";
    const std::string name = short_name(op);
    // No weight is compared for layers with a tied weight, and for operators other than these two.
    if (!weighted || layer.parameters.empty() || layer.tied_layer >= 0 ||
        (name != "conv2d" && name != "linear") || !has_weight(op))
      return;
    const auto& wanted = layer.parameters[0].shape;
    // Equal columns, and rows that divide the layer's rows: this is the first part of a packed
    // projection.
    if (name == "linear" && shapes[1].size() == 2 && wanted.size() == 2 &&
        shapes[1][1] == wanted[1] && shapes[1][0] < wanted[0] && wanted[0] % shapes[1][0] == 0)
      rows_left_ = wanted[0] - shapes[1][0];
    else if (shapes[1] != wanted)
      fail(*op.event,
           fmt::format("its weight is {}, but {} has {}", fmt::join(shapes[1], " x "),
                       layer_text(index), fmt::join(wanted, " x ")),
           "is it the trace of another model?");
    if (layer.kind == "conv") check_batch(op, shapes[0][0]);
  }

  void check_batch(const TracedOp& op, std::int64_t batch) {
    times_.checks_batch = true;
    if (batch != model_.samples)
      fail(*op.event, fmt::format("its batch is {}, not {}", batch, model_.samples),
           fmt::format("--batch {}", batch));
  }

  // Adds an operator's time to a layer, and remembers its sequence number for backward.
  void take(const TracedOp& op, std::size_t layer) {
    times_.forward[layer] += op.seconds;
    visit(times_.forward_visits, op, layer);
    if (op.event->sequence >= 0) owners_.push_back({op.event->sequence, layer});
  }

  // Extends the last visit if it belongs to this layer; otherwise begins a new one.
  static void visit(std::vector<LayerTimes::Visit>& visits, const TracedOp& op, std::size_t layer) {
    if (visits.empty() || visits.back().layer != layer)
      visits.push_back({layer, op.event->start, op.event->end(), 0});
    visits.back().end = std::max(visits.back().end, op.event->end());
    ++visits.back().operators;
  }

  // Assigns backward nodes to layers. A forward operator's sequence number is the number that its
  // first backward node will get, so a node belongs to the last operator whose number is not above
  // its own. Nodes without a number (gradient accumulation) belong to the layer of the node before
  // them.
  void backward() {
    std::stable_sort(owners_.begin(), owners_.end(),
                     [](const Owner& a, const Owner& b) { return a.sequence < b.sequence; });
    std::ptrdiff_t last = -1;
    for (const TracedOp& node : traced_.backward) {
      if (node.event->sequence >= 0) {
        const auto after = std::upper_bound(
            owners_.begin(), owners_.end(), node.event->sequence,
            [](std::int64_t sequence, const Owner& owner) { return sequence < owner.sequence; });
        if (after != owners_.begin()) last = static_cast<std::ptrdiff_t>((after - 1)->layer);
      }
      if (last < 0) fail(*node.event, "no forward operator has its sequence number");
      times_.backward[static_cast<std::size_t>(last)] += node.seconds;
      visit(times_.backward_visits, node, static_cast<std::size_t>(last));
    }
  }

  // A forward operator's sequence number and its layer.
  struct Owner {
    std::int64_t sequence;
    std::size_t layer;
  };
  const TracedStep& traced_;
  const TrainingStep& model_;
  const std::string& file_;
  LayerTimes times_;
  std::vector<Owner> owners_;
  // The last matched layer; -1 = none yet.
  std::ptrdiff_t current_ = -1;
  // First layer that has not been matched or passed over.
  std::size_t next_ = 0;
  // The layer began with a likely operator, and may continue with operators of its kind's `inside`.
  bool composite_ = false;
  // Rows of the current layer's weight for which no operator has been seen.
  std::int64_t rows_left_ = 0;
};

}  // namespace

LayerTimes match_layers(const TracedStep& traced, const TrainingStep& model,
                        const std::string& file) {
  return Matcher(traced, model, file).match();
}

}  // namespace lockstep
