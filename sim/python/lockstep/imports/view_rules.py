"""Rules of operators that move nothing: the walk ignores them, or makes them the model format's own (see walk.py)."""

from __future__ import annotations

from dataclasses import replace

from .graph import Node
from .layer_rules import extended, flatten
from .model_text import Form
from .walk import SHAPES_HINT, Kind, Rule, Traced, Walk


def same(walk: Walk, node: Node) -> Traced:
    return walk.input_of(node, 0)


def view(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    is_unchanged = bool(node.shape) and x.shape == node.shape
    if x.kind != Kind.LAYER or walk.form_of(x) != Form.IMAGE or is_unchanged:
        return x
    if len(node.shape) == 2:
        return flatten(walk, node, x)
    if len(node.shape) == 3 and x.shape and node.shape[0] == x.shape[0]:
        return x  # the permutation after it makes tokens
    if not node.shape:
        walk.fail(node, "its shape is not in the file", SHAPES_HINT)
    walk.fail(node, "an image in another shape is not known", "known: flattened, or as a sequence of its pixels")


def permute(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    order = _order(node, len(x.shape))
    if x.kind == Kind.PARAMETER and not node.shape:
        # A constant that an exporter folded into the file has no shape there.
        node.shape = tuple(x.shape[dim] for dim in order if 0 <= dim < len(x.shape))
        return x
    form = walk.form_of(x) if x.kind == Kind.LAYER else Form.SEQUENCE
    if form in (Form.SEQUENCE, Form.VECTOR):
        return x
    for before, permutation, op, after in (
        (Form.IMAGE, [0, 2, 3, 1], "permute", Form.IMAGE_LAST),
        (Form.IMAGE_LAST, [0, 3, 1, 2], "permute", Form.IMAGE),
        (Form.IMAGE, [0, 2, 1], "to_tokens", Form.SEQUENCE),
    ):
        if form == before and order == permutation:
            return walk.emit(node, walk.name_at(node, op), op, "", [x], after)
    walk.fail(node, f"the order {', '.join(map(str, order))} of an image's dimensions is not known")


def _order(node: Node, rank: int) -> list[int]:
    """The order of `rank` dimensions after the permutation; an ONNX permutation without an order reverses them."""

    def whole(dim: float) -> int:
        return int(dim + rank if dim < 0 else dim)

    if node.op == "permute":
        return [whole(dim) for dim in node.numbers.get("dims", range(rank - 1, -1, -1))]
    order = list(range(rank))
    a, b = whole(node.number("dim0", 0)), whole(node.number("dim1", 1))
    if 0 <= a < rank and 0 <= b < rank:
        order[a], order[b] = order[b], order[a]
    return order


def part(walk: Walk, node: Node) -> Traced:
    """A part of a list, one index of a dimension, or a range of a dimension."""
    x = walk.input_of(node, 0)
    if x.kind == Kind.PARTS:
        return replace(x, kind=Kind.LAYER, part=int(node.number("1", 0)))
    if x.kind != Kind.LAYER:
        return x
    index, form = int(node.number("index", 0)), walk.form_of(x)
    is_range = "start" in node.numbers or "end" in node.numbers
    if not is_range and len(x.shape) > 3 and form == Form.SEQUENCE:
        return replace(x, part=index)
    if not x.shape:
        walk.fail(node, "the shape of its input is not in the file", SHAPES_HINT)
    if is_range:
        return x  # halves of heads, or all of a dimension
    if form == Form.SEQUENCE and len(node.shape) == 2 and index == 0:
        return walk.emit(node, walk.name_at(node, "select_token"), "select_token", "", [x], Form.VECTOR)
    hint = "known: the first token, and the parts of a packed projection"
    walk.fail(node, "one index of a dimension is not known here", hint)


def parts(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    if not x.is_output:
        return x
    x = walk.layer(node, 0)
    if walk.form_of(x) != Form.SEQUENCE:
        walk.fail(node, "parts of an image are not known")
    return replace(x, kind=Kind.PARTS)


def concat(walk: Walk, node: Node) -> Traced:
    inputs = [walk.input_of(node, i) for i in range(len(node.inputs))]
    outputs = [x for x in inputs if x.is_output]
    tokens = [x for x in inputs if x.kind == Kind.PARAMETER]
    if not outputs:
        return inputs[0]
    if tokens and len(outputs) == 1:
        x, token = walk.layer(node, len(inputs) - 1), tokens[-1].value
        assert token is not None
        name = walk.named_after(node, token, "class_token")
        return walk.emit(node, name, "class_token", "", [x], Form.SEQUENCE, [token])
    expressions = [x for x in outputs if x.kind == Kind.EXPRESSION]
    if expressions and len(outputs) > 1 and len({x.layer for x in outputs}) == 1:
        return extended(expressions[-1], node)
    if len(outputs) == 1 and len(inputs) > 1:
        return outputs[0]  # joined to an empty cache
    layers = [walk.layer(node, i) for i in range(len(inputs))]
    return walk.emit(node, walk.name_at(node, "concat"), "concat", "", layers, walk.form_of(layers[0]))


RULES: dict[str, Rule] = {
    "same": same,
    "view": view,
    "permute": permute,
    "transpose": permute,
    "part": part,
    "parts": parts,
    "concat": concat,
}
