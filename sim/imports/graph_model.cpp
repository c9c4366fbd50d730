// See graph_model.hpp. The walk itself; its rules lie in graph_layers.cpp, graph_arithmetic.cpp,
// graph_views.cpp and graph_attention.cpp.
#include "imports/graph_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "imports/graph_walker.hpp"

namespace lockstep {
namespace graph_walk {

std::string owner_of(const std::string& parameter) {
  for (const char* ending : {".weight", ".bias", "_weight", "_bias"})
    if (parameter.ends_with(ending))
      return parameter.substr(0, parameter.size() - std::string_view(ending).size());
  return parameter;
}

namespace {

std::string clean(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '_';
  return name;
}

}  // namespace

Walker::Walker(const Graph& graph) : graph_(graph) {
  for (const GraphNode& node : graph.nodes)
    for (std::size_t dot = node.module.find('.'); dot != std::string::npos;
         dot = node.module.find('.', dot + 1))
      parents_.insert(node.module.substr(0, dot));
  for (const auto& [name, value] : graph.values) traced_[name] = begin(value);
  if (input_ == nullptr)
    throw file_error(graph.file, "", "has no input that is an image or token ids",
                     "four dimensions of floats, or two of integers, the batch first");
}

Traced Walker::begin(const GraphValue& value) {
  Traced traced;
  traced.shape = value.shape;
  if (value.kind == GraphValue::Kind::parameter) {
    traced.kind = Kind::parameter;
    traced.parameter = &value;
  } else if (value.kind == GraphValue::Kind::input && input_ == nullptr &&
             (value.tokens ? value.shape.size() == 2 : value.shape.size() == 4)) {
    input_ = &value;
    traced.kind = Kind::layer;
    traced.layer = "input";
    info_["input"].form = value.tokens ? Form::tokens : Form::image;
  }
  return traced;
}

ImportedModel Walker::run() {
  for (const GraphNode& node : graph_.nodes) visit(node);
  refuse_unknown();
  return model();
}

void Walker::visit(const GraphNode& node) {
  bool constant = true, masks = node.compares;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Kind kind = given(node, i) ? in(node, i).kind : Kind::constant;
    if (kind == Kind::unknown) {
      Traced unknown;
      unknown.kind = Kind::unknown;
      return give(node, unknown);
    }
    constant = constant && kind == Kind::constant;
    masks = masks || (kind == Kind::constant && in(node, i).masked);
  }
  const auto rule = rules().find(node.op);
  if (node.op == "constant" || (constant && node.op != "noise")) {
    Traced made;
    made.masked = masks;
    return give(node, made);
  }
  if (rule != rules().end()) return (this->*rule->second)(node);
  unknown_[node.written].push_back(&node);
  Traced unknown;
  unknown.kind = Kind::unknown;
  give(node, unknown);
}

const std::map<std::string, Walker::Rule>& Walker::rules() {
  static const std::map<std::string, Rule> table{
      {"conv", &Walker::conv},
      {"linear", &Walker::linear},
      {"gemm", &Walker::gemm},
      {"matmul", &Walker::matmul},
      {"batch_norm", &Walker::norm},
      {"layer_norm", &Walker::norm},
      {"group_norm", &Walker::norm},
      {"rms_norm", &Walker::norm},
      {"relu", &Walker::activation},
      {"relu6", &Walker::activation},
      {"leaky_relu", &Walker::activation},
      {"gelu", &Walker::activation},
      {"silu", &Walker::activation},
      {"hardswish", &Walker::activation},
      {"hardsigmoid", &Walker::activation},
      {"clip", &Walker::clip},
      {"sigmoid", &Walker::part_of_expression},
      {"tanh", &Walker::part_of_expression},
      {"erf", &Walker::part_of_expression},
      {"pow", &Walker::part_of_expression},
      {"sqrt", &Walker::part_of_expression},
      {"rsqrt", &Walker::part_of_expression},
      {"reciprocal", &Walker::part_of_expression},
      {"neg", &Walker::part_of_expression},
      {"add", &Walker::arithmetic},
      {"sub", &Walker::arithmetic},
      {"rsub", &Walker::arithmetic},
      {"mul", &Walker::arithmetic},
      {"div", &Walker::arithmetic},
      {"dropout", &Walker::dropout},
      {"noise", &Walker::noise},
      {"max_pool", &Walker::pool},
      {"avg_pool", &Walker::pool},
      {"adaptive_avg_pool", &Walker::adaptive_pool},
      {"mean", &Walker::mean},
      {"view", &Walker::view},
      {"permute", &Walker::permute},
      {"transpose", &Walker::permute},
      {"same", &Walker::same},
      {"part", &Walker::part},
      {"parts", &Walker::parts},
      {"concat", &Walker::concat},
      {"embedding", &Walker::embedding},
      {"attention", &Walker::attention},
      {"mask", &Walker::mask},
      {"softmax", &Walker::softmax},
  };
  return table;
}

const Traced& Walker::in(const GraphNode& node, std::size_t index) {
  static const Traced nothing;
  if (index >= node.inputs.size() || node.inputs[index].empty()) return nothing;
  const auto found = traced_.find(node.inputs[index]);
  if (found == traced_.end())
    fail(node, fmt::format("reads '{}', which no node before it makes", node.inputs[index]));
  return found->second;
}

void Walker::give(const GraphNode& node, Traced traced) {
  traced.shape = node.shape;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) traced.shape.clear();
    traced_[node.outputs[i]] = traced;
  }
}

void Walker::fail(const GraphNode& node, const std::string& what, const std::string& hint) const {
  throw located_error(node.place, fmt::format("{}: {}", node.written, what), hint);
}

void Walker::refuse_unknown() const {
  if (unknown_.empty()) return;
  std::vector<Diagnostic> diagnostics;
  for (const auto& [written, nodes] : unknown_) {
    const Place& place = nodes.front()->place;
    Diagnostic& one = diagnostics.emplace_back();
    one.where = {place.file, place.line, place.column};
    one.field = place.field;
    one.message = fmt::format("the operator {} is not known", in_quotes(written));
    if (nodes.size() > 1) one.message += fmt::format(" (at {} nodes)", nodes.size());
  }
  diagnostics.back().hint = fmt::format("known: {}", fmt::join(graph_.known, ", "));
  throw ConfigError(std::move(diagnostics));
}

std::string Walker::unique(const std::string& wanted) {
  const std::string name = clean(wanted);
  const int count = ++used_[name];
  return count == 1 ? name : unique(fmt::format("{}_{}", name, count));
}

std::string Walker::name_at(const GraphNode& node, const std::string& op) const {
  const bool leaf =
      !node.module.empty() && node.module != node.block && !parents_.contains(node.module);
  return leaf ? node.module : node.module.empty() ? op : node.module + "." + op;
}

std::string Walker::named_after(const GraphNode& node, const Traced& parameter,
                                const std::string& op) const {
  const std::string& name = parameter.parameter->name;
  const bool made_up =
      name.find("::") != std::string::npos || name.starts_with("val_") || name.starts_with("_");
  return made_up ? name_at(node, op) : owner_of(name);
}

Traced Walker::emit(const GraphNode& node, const std::string& name, const std::string& op,
                    const std::string& arguments, std::vector<std::string> from, Form form) {
  Traced traced;
  traced.kind = Kind::layer;
  traced.layer = unique(name);
  traced.shape = node.shape;
  LayerInfo& info = info_[traced.layer];
  info.place = layers_.size();
  info.form = form;
  layers_.push_back({traced.layer, clean(node.block), op, arguments, std::move(from)});
  return traced;
}

Traced Walker::layer(const GraphNode& node, std::size_t index) {
  const Traced traced = in(node, index);
  if (traced.kind == Kind::layer) return traced;
  if (traced.kind != Kind::expression)
    fail(node, fmt::format("its input {} is no layer's output", index + 1));
  const auto recognised = recognise(traced.expression);
  if (!recognised) {
    throw located_error(
        traced.node->place,
        fmt::format("the operators from here to {} ({}) make no layer that is known", node.name,
                    fmt::join(traced.expression.operators, ", ")),
        "known: gelu, silu, hardswish, layer norm, RMS norm and rotary embedding of their parts");
  }
  Traced made = traced;
  made.kind = Kind::layer;
  made.expression = {};
  if (!recognised->op.empty()) {
    std::string name = name_at(*traced.node, recognised->op);
    if (!traced.expression.parameters.empty()) name = owner_of(traced.expression.parameters[0]);
    std::string arguments = recognised->arguments;
    if (recognised->op == "rotary")
      arguments = fmt::format("{{heads: {}}}", traced.shape.size() == 4 ? traced.shape[1] : 1);
    const Form form = form_of(traced);
    const std::int64_t features = features_of(traced);
    made = emit(*traced.node, name, recognised->op, arguments, {traced.layer}, form);
    info_[made.layer].features = features;
    made.shape = traced.shape;
  }
  traced_[node.inputs[index]] = made;
  return made;
}

std::int64_t Walker::features_of(const Traced& traced) const {
  const auto found = info_.find(traced.layer);
  return found == info_.end() ? 0 : found->second.features;
}

const Traced& Walker::weight(const GraphNode& node, std::size_t index) {
  const Traced& traced = in(node, index);
  if (traced.kind != Kind::parameter)
    fail(node, fmt::format("its input {} is no parameter", index + 1),
         "weights that are computed are not known");
  return traced;
}

const Shape& Walker::sizes(const GraphNode& node, const Traced& x, std::size_t least) const {
  if (x.shape.empty()) fail(node, "the shape of one of its inputs is not in the file", shapes_hint);
  if (x.shape.size() < least)
    fail(node, fmt::format("one of its inputs has {} dimensions, not {}", x.shape.size(), least));
  return x.shape;
}

ImportedModel Walker::model() {
  if (graph_.outputs.empty()) throw file_error(graph_.file, "outputs", "the graph has no output");
  const auto out = traced_.find(graph_.outputs[0]);
  if (out == traced_.end() || out->second.kind != Kind::layer || out->second.layer == "input")
    throw file_error(graph_.file, "outputs",
                     fmt::format("'{}' is no layer's output", graph_.outputs[0]));
  const Form form = form_of(out->second);
  if (form != Form::vector && form != Form::sequence)
    throw file_error(graph_.file, "outputs", "the first output is an image",
                     "networks for classes or next tokens are known");
  ImportedModel model;
  model.title = graph_.title;
  const Shape& input = input_->shape;
  if (input_->tokens)
    model.tokens = input[1];
  else
    model.image = {input.begin() + 1, input.end()};
  ListedLayer& head = layers_.at(info_.at(out->second.layer).place);
  if (form == Form::vector && head.op == "linear") {
    model.classes = features_of(out->second);
    const std::string count = fmt::format("out: {}", model.classes);
    head.arguments.replace(head.arguments.find(count), count.size(), "out: classes");
  }
  layers_.push_back({unique("cross_entropy"), "", "cross_entropy", "", {out->second.layer}});
  model.layers = layers_text(needed());
  if (graph_.outputs.size() > 1) model.notes.push_back("of several outputs the first was taken");
  return model;
}

std::vector<ListedLayer> Walker::needed() const {
  std::set<std::string> wanted{layers_.back().name};
  std::vector<ListedLayer> kept;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if (!wanted.contains(layer->name)) continue;
    wanted.insert(layer->from.begin(), layer->from.end());
    kept.push_back(*layer);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace graph_walk

ImportedModel model_of_graph(const Graph& graph) {
  ImportedModel model = graph_walk::Walker(graph).run();
  model.origin = fmt::format("{} ({})", graph.file.substr(graph.file.rfind('/') + 1), graph.title);
  return model;
}

}  // namespace lockstep
