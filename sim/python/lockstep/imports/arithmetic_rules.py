"""Rules of sums, products and other elementwise operators: layers of their own, or parts of a layer that is written
out (see walk.py)."""

from __future__ import annotations

from dataclasses import replace

from .graph import Node
from .layer_rules import activation, extended
from .model_text import Form
from .walk import Kind, Rule, Traced, Walk


def part_of_expression(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    if not x.is_output:
        return x  # positions, scores, coins
    return activation(walk, node) if "inplace" in node.numbers else extended(x, node)


def arithmetic(walk: Walk, node: Node) -> Traced:
    at = 0 if walk.input_of(node, 0).is_output else 1
    a, b = walk.input_of(node, at), walk.input_of(node, 1 - at)
    if not a.is_output:
        return _without_layers(b, a)
    if b.kind == Kind.NOISE and node.op == "mul":
        x = walk.layer(node, at)
        name = walk.name_at(node, "stochastic_depth")
        return walk.emit(node, name, "stochastic_depth", {"p": f"{1 - b.p:.6g}"}, [x], walk.form_of(x))
    if b.kind == Kind.TABLE and node.op == "add":
        return _add_positions(walk, node, at, b, lookup=True)
    if b.kind == Kind.PARAMETER:
        return _with_parameter(walk, node, at, a, b)
    if not b.is_output:
        return extended(a, node)
    of_one_expression = (a.layer, a.part) == (b.layer, b.part) and Kind.EXPRESSION in (a.kind, b.kind)
    return _both(a, b, node) if of_one_expression else _join(walk, node)


def _both(a: Traced, b: Traced, node: Node) -> Traced:
    """Two expressions over one layer's output, or one and the output itself."""
    both = extended(a if a.kind == Kind.EXPRESSION else b, node)
    operators = a.expression.operators | b.expression.operators | {node.op}
    parameters = a.expression.parameters + b.expression.parameters
    return replace(both, expression=replace(both.expression, operators=operators, parameters=parameters))


def _without_layers(a: Traced, b: Traced) -> Traced:
    """Scores and masks, coins and their scale, tables and types of tokens."""
    for x, other in ((a, b), (b, a)):
        if x.kind in (Kind.SCORES, Kind.WEIGHTS):
            return replace(x, masked=x.masked or other.masked)
    return b if a.kind == Kind.CONSTANT else a


def _with_parameter(walk: Walk, node: Node, at: int, a: Traced, b: Traced) -> Traced:
    parameter = b.value
    assert parameter is not None
    if a.kind == Kind.EXPRESSION:
        longer = extended(a, node)
        parameters = (*a.expression.parameters, parameter)
        return replace(longer, expression=replace(longer.expression, parameters=parameters))
    producer = walk.layer_named[a.layer]
    if (
        node.op == "add"
        and producer.op == "linear"
        and len(b.shape) == 1
        and isinstance(producer.arguments, dict)
        and "bias" in producer.arguments
    ):
        del producer.arguments["bias"]  # the layer has this bias in place of its own
        producer.parameters[parameter.name] = parameter.count
        return a
    x = walk.layer(node, at)
    if node.op == "add" and walk.form_of(x) == Form.SEQUENCE and len(b.shape) >= 2:
        return _add_positions(walk, node, at, b, lookup=False)
    if node.op == "mul":
        name = walk.named_after(node, parameter, "layer_scale")
        return walk.emit(node, name, "layer_scale", "", [x], walk.form_of(x), [parameter])
    walk.fail(node, f"{node.op} with the parameter {parameter.name} is no layer that is known")


def _add_positions(walk: Walk, node: Node, at: int, table: Traced, lookup: bool) -> Traced:
    x, parameter = walk.layer(node, at), table.value
    assert parameter is not None
    if len(parameter.shape) < 2:
        walk.fail(node, "its table has fewer than two dimensions")
    arguments: dict[str, object] = {"length": parameter.shape[-2]}
    if not lookup:
        arguments["lookup"] = False
    name = walk.named_after(node, parameter, "position_embedding")
    return walk.emit(node, name, "position_embedding", arguments, [x], walk.form_of(x), [parameter])


def _join(walk: Walk, node: Node) -> Traced:
    if node.op not in ("add", "mul"):
        walk.fail(node, "of two layers' outputs is not known", "known: sums and products")
    a, b = walk.layer(node, 0), walk.layer(node, 1)
    op = "add" if node.op == "add" else "multiply"
    arguments: dict[str, object] = {"inplace": True} if op == "add" and node.number("inplace", 0) else {}
    gated = len(a.shape) == 4 and len(b.shape) == 4 and a.shape[2] == 1
    form = walk.form_of(b if gated else a)
    return walk.emit(node, walk.name_at(node, op), op, arguments, [a, b], form, features=walk.features_of(a))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("sigmoid", "tanh", "erf", "pow", "sqrt", "rsqrt", "reciprocal", "neg"), part_of_expression),
    **dict.fromkeys(("add", "sub", "rsub", "mul", "div"), arithmetic),
}
