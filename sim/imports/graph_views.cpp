// Operators that move nothing: looked through, or the model format's own (see graph_walker.hpp).
#include <fmt/format.h>

#include <utility>

#include "imports/graph_walker.hpp"

namespace lockstep::graph_walk {

namespace {

bool is_layer(const Traced& x) {
  return x.kind == Kind::layer;
}

}  // namespace

void Walker::same(const GraphNode& node) {
  give(node, in(node, 0));
}

void Walker::view(const GraphNode& node) {
  const Traced x = in(node, 0);
  const bool unchanged = !node.shape.empty() && x.shape == node.shape;
  if (!is_layer(x) || form_of(x) != Form::image || unchanged) return give(node, x);
  if (node.shape.size() == 2)
    return give(node, emit(node, name_at(node, "flatten"), "flatten", "", {x.layer}, Form::vector));
  if (node.shape.size() == 3 && !x.shape.empty() && node.shape[0] == x.shape[0])
    return give(node, x);  // see permute
  if (node.shape.empty()) fail(node, "its shape is not in the file", shapes_hint);
  fail(node, "an image in another shape is not known",
       "known: flattened, or as a sequence of its pixels");
}

std::vector<std::int64_t> Walker::order_of(const GraphNode& node, std::size_t rank) const {
  std::vector<std::int64_t> order;
  if (node.op == "permute" && !node.has("dims"))  // ONNX: the other way round
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  if (!order.empty()) return order;
  const auto whole = [&](double dim) {
    return static_cast<std::int64_t>(dim < 0 ? dim + static_cast<double>(rank) : dim);
  };
  if (node.op == "permute") {
    for (const double dim : node.numbers.at("dims")) order.push_back(whole(dim));
    return order;
  }
  for (std::size_t i = 0; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  const auto a = static_cast<std::size_t>(whole(node.number("dim0", 0)));
  const auto b = static_cast<std::size_t>(whole(node.number("dim1", 1)));
  if (a < rank && b < rank) std::swap(order[a], order[b]);
  return order;
}

void Walker::permute(const GraphNode& node) {
  Traced x = in(node, 0);
  if (x.kind == Kind::parameter && node.shape.empty()) {
    // What was folded into the file has no shape of its own there.
    const Shape before = x.shape;
    give(node, x);
    Shape& after = traced_[node.outputs.at(0)].shape;
    for (const std::int64_t dim : order_of(node, before.size()))
      if (dim >= 0 && dim < static_cast<std::int64_t>(before.size()))
        after.push_back(before[static_cast<std::size_t>(dim)]);
    return;
  }
  if (!is_layer(x) || form_of(x) == Form::sequence || form_of(x) == Form::vector)
    return give(node, x);
  const auto order = order_of(node, x.shape.size());
  if (form_of(x) == Form::image && order == std::vector<std::int64_t>{0, 2, 3, 1})
    return give(node,
                emit(node, name_at(node, "permute"), "permute", "", {x.layer}, Form::image_last));
  if (form_of(x) == Form::image_last && order == std::vector<std::int64_t>{0, 3, 1, 2})
    return give(node, emit(node, name_at(node, "permute"), "permute", "", {x.layer}, Form::image));
  if (form_of(x) == Form::image && order == std::vector<std::int64_t>{0, 2, 1})
    return give(node,
                emit(node, name_at(node, "to_tokens"), "to_tokens", "", {x.layer}, Form::sequence));
  fail(node,
       fmt::format("the order {} of an image's dimensions is not known", fmt::join(order, ", ")));
}

void Walker::part(const GraphNode& node) {
  Traced x = in(node, 0);
  const bool is_list = x.kind == Kind::list;
  if (is_list) x.kind = Kind::layer;
  if (x.kind != Kind::layer) return give(node, x);
  const auto index = static_cast<int>(node.number(is_list ? "1" : "index", 0));
  const bool range = node.has("start") || node.has("end");
  if (is_list || (!range && x.shape.size() > 3 && form_of(x) == Form::sequence)) {
    x.part = index;
    return give(node, x);
  }
  if (x.shape.empty()) fail(node, "the shape of its input is not in the file", shapes_hint);
  if (range) return give(node, x);  // halves of heads, all of a dimension
  if (form_of(x) == Form::sequence && node.shape.size() == 2 && index == 0)
    return give(node, emit(node, name_at(node, "select_token"), "select_token", "", {x.layer},
                           Form::vector));
  fail(node, "one index of a dimension is not known here",
       "known: the first token, and the parts of a packed projection");
}

void Walker::parts(const GraphNode& node) {
  if (in(node, 0).kind != Kind::layer && in(node, 0).kind != Kind::expression)
    return give(node, in(node, 0));
  Traced x = layer(node, 0);
  if (form_of(x) != Form::sequence) fail(node, "parts of an image are not known");
  if (node.outputs.size() < 2) {
    x.kind = Kind::list;
    return give(node, x);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    x.part = static_cast<int>(i);
    x.shape = node.shape;
    traced_[node.outputs[i]] = x;
  }
}

void Walker::concat(const GraphNode& node) {
  const Traced *token = nullptr, *value = nullptr;
  bool expressions = false, same_base = true;
  std::size_t values = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Traced& x = in(node, i);
    if (x.kind == Kind::parameter) token = &x;
    if (x.kind != Kind::layer && x.kind != Kind::expression) continue;
    expressions = expressions || x.kind == Kind::expression;
    same_base = same_base && (value == nullptr || value->layer == x.layer);
    if (value == nullptr || x.kind == Kind::expression) value = &x;
    ++values;
  }
  if (value == nullptr) return give(node, in(node, 0));
  if (token != nullptr && values == 1) {
    const Traced x = layer(node, node.inputs.size() - 1);
    return give(node, emit(node, named_after(node, *token, "class_token"), "class_token", "",
                           {x.layer}, Form::sequence));
  }
  if (expressions && same_base && values > 1) return give(node, extended(*value, node));
  if (values == 1 && node.inputs.size() > 1) return give(node, *value);  // to an empty cache
  std::vector<std::string> from;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) from.push_back(layer(node, i).layer);
  const Form form = info_.at(from.front()).form;
  give(node, emit(node, name_at(node, "concat"), "concat", "", from, form));
}

}  // namespace lockstep::graph_walk
