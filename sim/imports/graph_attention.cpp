// Embeddings, and attention in one operator or written out (see graph_walker.hpp).
#include <fmt/format.h>

#include "imports/graph_walker.hpp"

namespace lockstep::graph_walk {

void Walker::embedding(const GraphNode& node) {
  const Traced& w = weight(node, 0);
  sizes(node, w, 2);
  const Traced& ids = in(node, 1);
  if (ids.kind == Kind::layer && form_of(ids) == Form::tokens) {
    const Traced y = emit(node, owner_of(w.parameter->name), "embedding",
                          fmt::format("{{rows: {}, features: {}}}", w.shape[0], w.shape[1]),
                          {ids.layer}, Form::sequence);
    tables_[w.parameter->name] = y.layer;
    return give(node, y);
  }
  Traced rows;
  rows.kind = Kind::table;
  rows.parameter = w.parameter;
  give(node, rows);
}

void Walker::matmul(const GraphNode& node) {
  const Traced b = in(node, 1);
  if (b.kind == Kind::parameter)
    return give(node, emit_linear(node, layer(node, 0), b, sizes(node, b, 2).back(), false));
  const Traced a = in(node, 0);
  if (a.kind == Kind::weights) {
    const Traced value = layer(node, 1);
    return give(node, emit_attention(node, {a.layer, a.part, a.shape}, {a.key_layer, a.key_part},
                                     {value.layer, value.part}, a.shape.size() == 3, value.shape,
                                     a.masked, a.dropped));
  }
  const Traced query = layer(node, 0), key = layer(node, 1);
  Traced scores = query;
  scores.kind = Kind::scores;
  scores.key_layer = key.layer;
  scores.key_part = key.part;
  give(node, scores);
}

Traced Walker::emit_attention(const GraphNode& node, const Projection& q, const Projection& k,
                              const Projection& v, bool merged, const Shape& value_shape,
                              bool masked, bool dropped) {
  const std::int64_t size = value_shape.empty() ? 0 : value_shape.back();
  const bool packed = q.layer == k.layer && k.layer == v.layer;
  const auto features = [&](const std::string& name) { return info_.at(name).features; };
  std::int64_t heads = 0, kv_heads = 0;
  if (size > 0) {
    heads = features(q.layer) / size / (packed ? 3 : 1);
    kv_heads = features(k.layer) / size / (packed ? 3 : 1);
  }
  if (heads < 1 || kv_heads < 1)
    fail(node, "the number of heads does not show",
         size > 0 ? "queries, keys and values must be outputs of linear layers" : shapes_hint);
  if (packed && (q.part != 0 || k.part != 1 || v.part != 2))
    fail(node, "queries, keys and values lie otherwise in their packed projection",
         "known: in this order");
  std::string arguments = fmt::format("heads: {}", heads);
  if (kv_heads != heads) arguments += fmt::format(", kv_heads: {}", kv_heads);
  if (masked) arguments += ", causal: true";
  if (dropped) arguments += ", dropout: true";
  if (merged || tokens_first_.contains(q.layer)) arguments += ", tokens_first: true";
  std::vector<std::string> from{q.layer};
  if (!packed) from = {q.layer, k.layer, v.layer};
  Traced y =
      emit(node, attention_name(node), "attention", "{" + arguments + "}", from, Form::sequence);
  info_[y.layer].features = heads * size;
  return y;
}

std::string Walker::attention_name(const GraphNode& node) const {
  return node.module.empty() ? "attention" : node.module + ".attention";
}

void Walker::attention(const GraphNode& node) {
  const Traced q = layer(node, 0), k = layer(node, 1), v = layer(node, 2);
  const bool masked = node.number("is_causal", 0) != 0 || in(node, 3).masked;
  give(node, emit_attention(node, {q.layer, q.part}, {k.layer, k.part}, {v.layer, v.part}, false,
                            v.shape, masked, node.number("p", 0) != 0));
}

void Walker::mask(const GraphNode& node) {
  Traced scores;
  bool masked = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Traced& x = in(node, i);
    if (x.kind == Kind::scores) scores = x;
    masked = masked || x.masked;
  }
  if (scores.kind != Kind::scores) fail(node, "a choice is known inside of attention only");
  scores.masked = masked;
  give(node, scores);
}

void Walker::softmax(const GraphNode& node) {
  Traced x = in(node, 0);
  if (x.kind == Kind::scores) {
    x.kind = Kind::weights;
    return give(node, x);
  }
  fail(node, "a softmax is known inside of attention only",
       "export the network without its last softmax: the loss has one");
}

}  // namespace lockstep::graph_walk
