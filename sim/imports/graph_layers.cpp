// Operators that are layers (see graph_walker.hpp).
#include <fmt/format.h>

#include <cmath>

#include "imports/graph_walker.hpp"

namespace lockstep::graph_walk {

void Walker::conv(const GraphNode& node) {
  const Traced x = layer(node, 0);
  const Traced& w = weight(node, 1);
  if (w.shape.size() != 4) fail(node, "only convolutions in two dimensions are known");
  if (node.has("padding") && node.numbers.at("padding").empty())
    fail(node, "its padding is not in numbers");
  const auto pair = [&](const char* key, double fallback) {
    return std::pair(static_cast<std::int64_t>(node.number(key, fallback, 0)),
                     static_cast<std::int64_t>(node.number(key, fallback, 1)));
  };
  const auto same_both = [&](const char* key) {
    const auto [h, w_] = pair(key, 1);
    if (h != w_) fail(node, fmt::format("its {} differs in height and width", key));
    return h;
  };
  std::string arguments = fmt::format("out: {}", w.shape[0]);
  const auto put = [&](const std::string& name, std::int64_t h, std::int64_t w_,
                       std::int64_t fallback) {
    if (h != w_)
      arguments += fmt::format(", {}_h: {}, {}_w: {}", name, h, name, w_);
    else if (h != fallback)
      arguments += fmt::format(", {}: {}", name, h);
  };
  put("kernel", w.shape[2], w.shape[3], 1);
  const std::int64_t stride = same_both("stride"), dilation = same_both("dilation");
  put("stride", stride, stride, 1);
  const auto [padding_h, padding_w] = pair("padding", 0);
  put("padding", padding_h, padding_w, 0);
  put("dilation", dilation, dilation, 1);
  const auto groups = static_cast<std::int64_t>(node.number("groups", 1));
  put("groups", groups, groups, 1);
  // Exporters write zeros where there is no bias.
  if (in(node, 2).kind != Kind::parameter) arguments += ", bias: false";
  give(node, emit(node, named_after(node, w, "conv"), "conv", "{" + arguments + "}", {x.layer},
                  Form::image));
}

Traced Walker::emit_linear(const GraphNode& node, const Traced& x, const Traced& w,
                           std::int64_t out, bool bias) {
  const Form form = form_of(x);
  if (form == Form::image || form == Form::tokens)
    fail(node, "a linear layer here needs features in the last dimension");
  std::string name = named_after(node, w, "linear"), tied;
  if (const auto table = tables_.find(w.parameter->name); table != tables_.end()) {
    tied = fmt::format(", tied_to: {}", table->second);
    name = name_at(node, "linear");
  }
  Traced y =
      emit(node, name, "linear",
           fmt::format("{{out: {}{}{}}}", out, bias ? "" : ", bias: false", tied), {x.layer}, form);
  info_[y.layer].features = out;
  const std::int64_t samples = input_->shape[0];
  if (x.shape.size() == 3 && x.shape[0] != samples && x.shape[1] == samples)
    tokens_first_.insert(y.layer);
  return y;
}

void Walker::linear(const GraphNode& node) {
  const Traced& w = weight(node, 1);
  give(node, emit_linear(node, layer(node, 0), w, sizes(node, w, 2)[0], given(node, 2)));
}

void Walker::gemm(const GraphNode& node) {
  const Traced& w = weight(node, 2);
  const bool rows_out = node.number("transposed", 0) != 0;
  give(node,
       emit_linear(node, layer(node, 1), w, sizes(node, w, 2)[rows_out ? 0 : 1], given(node, 0)));
}

void Walker::norm(const GraphNode& node) {
  const Traced x = layer(node, 0);
  const bool affine = given(node, 1);
  std::vector<std::string> arguments;
  if (node.op == "group_norm")
    arguments.push_back(
        fmt::format("groups: {}", static_cast<std::int64_t>(node.number("num_groups", 1))));
  if (node.op == "rms_norm") arguments.push_back("fused: true");
  if (!affine && node.op != "rms_norm") arguments.push_back("affine: false");
  if (affine && node.op == "layer_norm" && !given(node, 2)) arguments.push_back("bias: false");
  const std::string name =
      affine ? named_after(node, weight(node, 1), node.op) : name_at(node, node.op);
  give(node, emit(node, name, node.op,
                  arguments.empty() ? "" : fmt::format("{{{}}}", fmt::join(arguments, ", ")),
                  {x.layer}, form_of(x)));
}

void Walker::activate(const GraphNode& node, const std::string& op) {
  const Traced x = layer(node, 0);
  Traced y = emit(node, name_at(node, op), op,
                  node.number("inplace", 0) != 0 ? "{inplace: true}" : "", {x.layer}, form_of(x));
  info_[y.layer].features = features_of(x);
  give(node, y);
}

void Walker::activation(const GraphNode& node) {
  activate(node, node.op);
}

void Walker::clip(const GraphNode& node) {
  if (in(node, 0).kind == Kind::expression) return part_of_expression(node);
  const double least = node.number("min", -INFINITY), most = node.number("max", INFINITY);
  if (least == 0 && most == 6) return activate(node, "relu6");
  if (least == 0 && std::isinf(most)) return activate(node, "relu");
  fail(node, fmt::format("limits of {} and {} are no activation that is known", least, most),
       "known: 0 to 6, or 0 and more");
}

void Walker::dropout(const GraphNode& node) {
  Traced x = in(node, 0);
  const double p = node.number("p", 0.5);
  if (p == 0 || node.number("train", 1) == 0 ||
      (x.kind != Kind::layer && x.kind != Kind::expression && x.kind != Kind::weights))
    return give(node, x);
  if (x.kind == Kind::weights) {
    x.dropped = true;
    return give(node, x);
  }
  x = layer(node, 0);
  Traced y = emit(node, name_at(node, "dropout"), "dropout", fmt::format("{:.6g}", p), {x.layer},
                  form_of(x));
  y.part = x.part;
  info_[y.layer].features = features_of(x);
  give(node, y);
}

void Walker::noise(const GraphNode& node) {
  Traced coins;
  coins.kind = Kind::noise;
  coins.p = node.number("p", 0.5);
  give(node, coins);
}

void Walker::pool(const GraphNode& node) {
  const Traced x = layer(node, 0);
  const auto square = [&](const char* key, double fallback) {
    const double h = node.number(key, fallback, 0);
    if (h != node.number(key, fallback, 1))
      fail(node, fmt::format("its {} differs in height and width", key));
    return static_cast<std::int64_t>(h);
  };
  const std::int64_t kernel = square("kernel", 1);
  const auto stride = square("stride", static_cast<double>(kernel));
  if (square("dilation", 1) != 1) fail(node, "dilated pooling is not known");
  std::string arguments = fmt::format("kernel: {}", kernel);
  if (stride != kernel && stride != 0) arguments += fmt::format(", stride: {}", stride);
  if (const auto padding = square("padding", 0); padding != 0)
    arguments += fmt::format(", padding: {}", padding);
  if (node.number("ceil_mode", 0) != 0) arguments += ", ceil_mode: true";
  give(node,
       emit(node, name_at(node, node.op), node.op, "{" + arguments + "}", {x.layer}, Form::image));
}

void Walker::adaptive_pool(const GraphNode& node) {
  const Traced x = layer(node, 0);
  give(node, emit(node, name_at(node, node.op), node.op,
                  fmt::format("{}", static_cast<std::int64_t>(node.number("out", 1))), {x.layer},
                  Form::image));
}

void Walker::mean(const GraphNode& node) {
  const Traced& raw = in(node, 0);
  const bool image =
      (raw.kind == Kind::layer || raw.kind == Kind::expression) && form_of(raw) == Form::image;
  const double rank = image ? 4 : static_cast<double>(raw.shape.size());
  const auto found = node.numbers.find("dim");
  std::set<double> dims;
  if (found != node.numbers.end())
    for (const double dim : found->second) dims.insert(dim < 0 ? dim + rank : dim);
  if (dims == std::set<double>{rank - 1} && raw.kind != Kind::constant)
    return give(node, extended(raw, node));
  const Traced x = layer(node, 0);
  if (!image || dims != std::set<double>{2, 3})
    fail(node, "a mean is known over an image's height and width, and inside of norms");
  const Traced pooled = emit(node, name_at(node, "adaptive_avg_pool"), "adaptive_avg_pool", "1",
                             {x.layer}, Form::image);
  give(node, node.number("keepdim", 0) != 0 ? pooled
                                            : emit(node, name_at(node, "flatten"), "flatten", "",
                                                   {pooled.layer}, Form::vector));
}

}  // namespace lockstep::graph_walk
