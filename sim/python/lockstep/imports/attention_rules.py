"""Rules of embeddings, and of attention in one operator or written out (see walk.py)."""

from __future__ import annotations

from dataclasses import replace

from .graph import Node
from .layer_rules import emit_linear
from .model_text import Form
from .walk import SHAPES_HINT, Kind, Rule, Traced, Walk, owner_of


def embedding(walk: Walk, node: Node) -> Traced:
    (weight, parameter), ids = walk.weight(node, 0), walk.input_of(node, 1)
    walk.sizes(node, weight, 2)
    if ids.kind != Kind.LAYER or walk.form_of(ids) != Form.TOKENS:
        return Traced(Kind.TABLE, value=parameter)
    arguments: dict[str, object] = {"rows": weight.shape[0], "features": weight.shape[1]}
    y = walk.emit(node, owner_of(parameter.name), "embedding", arguments, [ids], Form.SEQUENCE, [parameter])
    walk.tables[parameter.name] = y.layer
    return y


def matmul(walk: Walk, node: Node) -> Traced:
    a, b = walk.input_of(node, 0), walk.input_of(node, 1)
    if b.kind == Kind.PARAMETER and b.value is not None:
        return emit_linear(walk, node, walk.layer(node, 0), b.value, walk.sizes(node, b, 2)[-1])
    if a.kind == Kind.WEIGHTS:
        key = Traced(Kind.LAYER, a.key_layer, a.key_part)
        is_merged = len(a.shape) == 3  # heads lie beside the batch, as in nn.MultiheadAttention
        return _emit_attention(walk, node, (a, key, walk.layer(node, 1)), a.masked, a.dropped, is_merged)
    query, key = walk.layer(node, 0), walk.layer(node, 1)
    return replace(query, kind=Kind.SCORES, key_layer=key.layer, key_part=key.part)


def attention(walk: Walk, node: Node) -> Traced:
    query, key, value = (walk.layer(node, i) for i in range(3))
    is_masked = node.number("is_causal", 0) != 0 or walk.input_of(node, 3).masked
    return _emit_attention(walk, node, (query, key, value), is_masked, node.number("p", 0) != 0, False)


def _emit_attention(
    walk: Walk,
    node: Node,
    projections: tuple[Traced, Traced, Traced],
    is_masked: bool,
    is_dropped: bool,
    is_merged: bool,
) -> Traced:
    """Attention of queries, keys and values; the shape of the values tells the number of heads."""
    query, key, value = projections
    size = value.shape[-1] if value.shape else 0
    is_packed = query.layer == key.layer == value.layer
    heads, kv_heads = (
        walk.features_of(x) // size // (3 if is_packed else 1) if size > 0 else 0 for x in (query, key)
    )
    if heads < 1 or kv_heads < 1:
        hint = "queries, keys and values must be outputs of linear layers" if size > 0 else SHAPES_HINT
        walk.fail(node, "the number of heads does not show", hint)
    if is_packed and (query.part, key.part, value.part) != (0, 1, 2):
        walk.fail(
            node, "queries, keys and values lie otherwise in their packed projection", "known: in this order"
        )
    arguments: dict[str, object] = {"heads": heads}
    if kv_heads != heads:
        arguments["kv_heads"] = kv_heads
    flags = {
        "causal": is_masked,
        "dropout": is_dropped,
        "tokens_first": is_merged or query.layer in walk.tokens_first,
    }
    arguments.update({name: True for name, is_set in flags.items() if is_set})
    name = f"{node.module}.attention" if node.module else "attention"
    sources = [query] if is_packed else [query, key, value]
    return walk.emit(node, name, "attention", arguments, sources, Form.SEQUENCE, features=heads * size)


def mask(walk: Walk, node: Node) -> Traced:
    """where(condition, scores, -inf), masked_fill(scores, condition, -inf)."""
    inputs = [walk.input_of(node, i) for i in range(len(node.inputs))]
    scores = [x for x in inputs if x.kind == Kind.SCORES]
    if not scores:
        walk.fail(node, "a choice is known inside of attention only")
    return replace(scores[-1], masked=any(x.masked for x in inputs))


def softmax(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    if x.kind != Kind.SCORES:
        hint = "export the network without its last softmax: the loss has one"
        walk.fail(node, "a softmax is known inside of attention only", hint)
    return replace(x, kind=Kind.WEIGHTS)


RULES: dict[str, Rule] = {
    "embedding": embedding,
    "matmul": matmul,
    "attention": attention,
    "mask": mask,
    "softmax": softmax,
}
