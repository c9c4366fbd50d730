// Sums, products and other elementwise operators: layers of their own, or parts of one that is
// written out (see graph_walker.hpp).
#include <fmt/format.h>

#include "imports/graph_walker.hpp"

namespace lockstep::graph_walk {

Traced Walker::extended(const Traced& x, const GraphNode& node) {
  Traced y = x;
  if (y.kind == Kind::layer) {
    y.kind = Kind::expression;
    y.node = &node;
  }
  y.expression.operators.insert(node.op);
  return y;
}

void Walker::part_of_expression(const GraphNode& node) {
  const Traced& x = in(node, 0);
  if (x.kind == Kind::layer || x.kind == Kind::expression) {
    if (node.has("inplace")) return activate(node, node.op);
    return give(node, extended(x, node));
  }
  give(node, x);  // of positions, scores, coins
}

void Walker::arithmetic(const GraphNode& node) {
  Traced a = in(node, 0), b = in(node, 1);
  const auto is_value = [](const Traced& x) {
    return x.kind == Kind::layer || x.kind == Kind::expression;
  };
  if (!is_value(a) && is_value(b)) std::swap(a, b);
  if (!is_value(a)) return give(node, other_than_layers(a, b));
  const std::size_t at = is_value(in(node, 0)) ? 0 : 1;
  if (b.kind == Kind::noise && node.op == "mul") {
    const Traced x = layer(node, at);
    return give(node, emit(node, name_at(node, "stochastic_depth"), "stochastic_depth",
                           fmt::format("{{p: {:.6g}}}", 1 - b.p), {x.layer}, form_of(x)));
  }
  if (b.kind == Kind::table && node.op == "add") return add_positions(node, at, b, true);
  if (b.kind == Kind::parameter) return with_parameter(node, at, a, b);
  if (is_value(b)) {
    if (a.layer != b.layer || a.part != b.part || (a.kind == Kind::layer && b.kind == Kind::layer))
      return join(node);
    Traced both = extended(a.kind == Kind::expression ? a : b, node);
    both.expression.operators.insert(b.expression.operators.begin(), b.expression.operators.end());
    both.expression.parameters.insert(
        both.expression.parameters.end(), b.expression.parameters.begin(),
        b.kind == Kind::expression && a.kind == Kind::expression ? b.expression.parameters.end()
                                                                 : b.expression.parameters.begin());
    return give(node, both);
  }
  give(node, extended(a, node));
}

Traced Walker::other_than_layers(const Traced& a, const Traced& b) {
  for (const Traced* x : {&a, &b}) {
    if (x->kind == Kind::scores || x->kind == Kind::weights) {
      Traced scores = *x;
      const Traced& other = x == &a ? b : a;
      scores.masked = scores.masked || other.masked;
      return scores;
    }
  }
  return a.kind == Kind::constant ? b : a;
}

void Walker::with_parameter(const GraphNode& node, std::size_t at, const Traced& a,
                            const Traced& b) {
  if (a.kind == Kind::expression) {
    Traced y = extended(a, node);
    y.expression.parameters.push_back(b.parameter->name);
    return give(node, y);
  }
  ListedLayer* producer = a.layer == "input" ? nullptr : &layers_[info_.at(a.layer).place];
  const bool biased = producer != nullptr && producer->op == "linear" && node.op == "add" &&
                      b.shape.size() == 1 &&
                      producer->arguments.find(", bias: false") != std::string::npos;
  if (biased) {
    producer->arguments.erase(producer->arguments.find(", bias: false"), 13);
    return give(node, a);
  }
  const Traced x = layer(node, at);
  if (node.op == "add" && form_of(x) == Form::sequence && b.shape.size() >= 2)
    return add_positions(node, at, b, false);
  if (node.op == "mul")
    return give(node, emit(node, named_after(node, b, "layer_scale"), "layer_scale", "", {x.layer},
                           form_of(x)));
  fail(node, fmt::format("{} with the parameter {} is no layer that is known", node.op,
                         b.parameter->name));
}

void Walker::add_positions(const GraphNode& node, std::size_t at, const Traced& table,
                           bool lookup) {
  const Traced x = layer(node, at);
  const Shape& shape = table.parameter->shape;
  if (shape.size() < 2) fail(node, "its table has fewer than two dimensions");
  give(node, emit(node, named_after(node, table, "position_embedding"), "position_embedding",
                  fmt::format("{{length: {}{}}}", shape[shape.size() - 2],
                              lookup ? "" : ", lookup: false"),
                  {x.layer}, form_of(x)));
}

void Walker::join(const GraphNode& node) {
  if (node.op != "add" && node.op != "mul")
    fail(node, "of two layers' outputs is not known", "known: sums and products");
  const Traced a = layer(node, 0), b = layer(node, 1);
  const std::string op = node.op == "add" ? "add" : "multiply";
  const bool in_place = node.op == "add" && node.number("inplace", 0) != 0;
  const bool gated = a.shape.size() == 4 && b.shape.size() == 4 && a.shape[2] == 1;
  Traced y = emit(node, name_at(node, op), op, in_place ? "{inplace: true}" : "",
                  {a.layer, b.layer}, form_of(gated ? b : a));
  info_[y.layer].features = features_of(a);
  give(node, y);
}

}  // namespace lockstep::graph_walk
