"""Rules of operators that are layers (see walk.py)."""

from __future__ import annotations

import math
from dataclasses import replace

from .graph import Node, Value
from .model_text import Form
from .walk import Kind, Rule, Traced, Walk


def conv(walk: Walk, node: Node) -> Traced:
    x, (weight, parameter), bias = walk.layer(node, 0), walk.weight(node, 1), walk.input_of(node, 2)
    if len(weight.shape) != 4:
        walk.fail(node, "only convolutions in two dimensions are known")
    if node.numbers.get("padding") == []:
        walk.fail(node, "its padding is not in numbers")
    arguments: dict[str, object] = {"out": weight.shape[0]}

    def put(name: str, height: int, width: int, absent: int) -> None:
        if height != width:
            arguments.update({f"{name}_h": height, f"{name}_w": width})
        elif height != absent:
            arguments[name] = height

    put("kernel", weight.shape[2], weight.shape[3], 1)
    for name, absent in (("stride", 1), ("padding", 0), ("dilation", 1)):
        height, width = (_whole(walk, node, name, absent, index) for index in (0, 1))
        if height != width and name != "padding":
            walk.fail(node, f"its {name} differs in height and width")
        put(name, height, width, absent)
    groups = _whole(walk, node, "groups", 1)
    put("groups", groups, groups, 1)
    if bias.kind != Kind.PARAMETER:  # exporters write zeros in place of a missing bias
        arguments["bias"] = False
    held = [parameter, bias.value if bias.kind == Kind.PARAMETER else None]
    return walk.emit(node, walk.named_after(node, parameter, "conv"), "conv", arguments, [x], Form.IMAGE, held)


def _whole(walk: Walk, node: Node, key: str, absent: int, index: int = 0) -> int:
    number = node.number(key, absent, index)
    if not math.isfinite(number):
        walk.fail(node, f"its {key} is no number")
    return int(number)


def emit_linear(
    walk: Walk, node: Node, x: Traced, parameter: Value, features: int, bias: Traced | None = None
) -> Traced:
    """A linear layer to `features`; `bias`: the layer's, None where it has none."""
    form = walk.form_of(x)
    if form in (Form.IMAGE, Form.TOKENS):
        walk.fail(node, "a linear layer here needs features in the last dimension")
    arguments: dict[str, object] = {"out": features}
    if bias is None:
        arguments["bias"] = False
    name = walk.named_after(node, parameter, "linear")
    if parameter.name in walk.tables:
        arguments["tied_to"] = walk.tables[parameter.name]
        name = walk.name_at(node, "linear")
    held = [parameter, bias.value if bias else None]
    y = walk.emit(node, name, "linear", arguments, [x], form, held, features)
    samples = walk.input.shape[0]
    if len(x.shape) == 3 and x.shape[0] != samples and x.shape[1] == samples:
        walk.tokens_first.add(y.layer)
    return y


def _bias(walk: Walk, node: Node, index: int) -> Traced | None:
    return walk.input_of(node, index) if node.has_input(index) else None


def linear(walk: Walk, node: Node) -> Traced:
    weight, parameter = walk.weight(node, 1)
    features = walk.sizes(node, weight, 2)[0]
    return emit_linear(walk, node, walk.layer(node, 0), parameter, features, _bias(walk, node, 2))


def gemm(walk: Walk, node: Node) -> Traced:
    """Bias, input, weight (in x out unless transposed), as in aten::addmm."""
    weight, parameter = walk.weight(node, 2)
    features = walk.sizes(node, weight, 2)[0 if node.number("transposed", 0) else 1]
    return emit_linear(walk, node, walk.layer(node, 1), parameter, features, _bias(walk, node, 0))


def norm(walk: Walk, node: Node) -> Traced:
    x, affine, name = walk.layer(node, 0), node.has_input(1), walk.name_at(node, node.op)
    arguments: dict[str, object] = {}
    if node.op == "group_norm":
        arguments["groups"] = _whole(walk, node, "num_groups", 1)
    elif node.op == "rms_norm":
        arguments["fused"] = True
    if not affine and node.op != "rms_norm":
        arguments["affine"] = False
    if affine and node.op == "layer_norm" and not node.has_input(2):
        arguments["bias"] = False
    held: list[Value | None] = []
    if affine:
        _, parameter = walk.weight(node, 1)
        name = walk.named_after(node, parameter, node.op)
        held = [parameter, walk.input_of(node, 2).value]
    return walk.emit(node, name, node.op, arguments, [x], walk.form_of(x), held)


def activation(walk: Walk, node: Node, op: str = "") -> Traced:
    op = op or node.op
    x = walk.layer(node, 0)
    arguments: dict[str, object] = {"inplace": True} if node.number("inplace", 0) else {}
    return walk.emit(
        node, walk.name_at(node, op), op, arguments, [x], walk.form_of(x), features=walk.features_of(x)
    )


def clip(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    if x.kind == Kind.EXPRESSION:
        return extended(x, node)
    least, most = node.number("min", -math.inf), node.number("max", math.inf)
    if least == 0 and most == 6:
        return activation(walk, node, "relu6")
    if least == 0 and math.isinf(most):
        return activation(walk, node, "relu")
    walk.fail(
        node,
        f"limits of {least:g} and {most:g} are no activation that is known",
        "known: 0 to 6, or 0 and more",
    )


def extended(x: Traced, node: Node) -> Traced:
    """The expression `x` with one more operator; a layer's output is an expression without operators."""
    expression = replace(x.expression, operators=x.expression.operators | {node.op})
    if x.kind == Kind.LAYER:
        x = replace(x, kind=Kind.EXPRESSION, node=node)
    return replace(x, expression=expression)


def dropout(walk: Walk, node: Node) -> Traced:
    x, p = walk.input_of(node, 0), node.number("p", 0.5)
    if p == 0 or node.number("train", 1) == 0 or not (x.is_output or x.kind == Kind.WEIGHTS):
        return x
    if x.kind == Kind.WEIGHTS:
        return replace(x, dropped=True)
    x = walk.layer(node, 0)
    y = walk.emit(
        node, walk.name_at(node, "dropout"), "dropout", f"{p:.6g}", [x], walk.form_of(x), features=walk.features_of(x)
    )
    return replace(y, part=x.part)


def noise(walk: Walk, node: Node) -> Traced:
    return Traced(Kind.NOISE, p=node.number("p", 0.5))


def pool(walk: Walk, node: Node) -> Traced:
    x = walk.layer(node, 0)

    def square(key: str, absent: int) -> int:
        height, width = (_whole(walk, node, key, absent, index) for index in (0, 1))
        if height != width:
            walk.fail(node, f"its {key} differs in height and width")
        return height

    kernel = square("kernel", 1)
    stride, padding = square("stride", kernel), square("padding", 0)
    if square("dilation", 1) != 1:
        walk.fail(node, "dilated pooling is not known")
    arguments: dict[str, object] = {"kernel": kernel}
    if stride not in (kernel, 0):
        arguments["stride"] = stride
    if padding:
        arguments["padding"] = padding
    if node.number("ceil_mode", 0):
        arguments["ceil_mode"] = True
    return walk.emit(node, walk.name_at(node, node.op), node.op, arguments, [x], Form.IMAGE)


def adaptive_pool(walk: Walk, node: Node) -> Traced:
    x = walk.layer(node, 0)
    return walk.emit(node, walk.name_at(node, node.op), node.op, str(_whole(walk, node, "out", 1)), [x], Form.IMAGE)


def mean(walk: Walk, node: Node) -> Traced:
    x = walk.input_of(node, 0)
    is_image = x.is_output and walk.form_of(x) == Form.IMAGE
    rank = 4 if is_image else len(x.shape)
    dims = {dim + rank if dim < 0 else dim for dim in node.numbers.get("dim", [])}
    if dims == {rank - 1} and x.kind != Kind.CONSTANT:
        return extended(x, node)
    x = walk.layer(node, 0)
    if not is_image or dims != {2, 3}:
        walk.fail(node, "a mean is known over an image's height and width, and inside of norms")
    name = walk.name_at(node, "adaptive_avg_pool")
    pooled = walk.emit(node, name, "adaptive_avg_pool", "1", [x], Form.IMAGE)
    return pooled if node.number("keepdim", 0) else flatten(walk, node, pooled)


def flatten(walk: Walk, node: Node, x: Traced) -> Traced:
    return walk.emit(node, walk.name_at(node, "flatten"), "flatten", "", [x], Form.VECTOR)


RULES: dict[str, Rule] = {
    "conv": conv,
    "linear": linear,
    "gemm": gemm,
    "clip": clip,
    "dropout": dropout,
    "noise": noise,
    "max_pool": pool,
    "avg_pool": pool,
    "adaptive_avg_pool": adaptive_pool,
    "mean": mean,
    **dict.fromkeys(("batch_norm", "layer_norm", "group_norm", "rms_norm"), norm),
    **dict.fromkeys(("relu", "relu6", "leaky_relu", "gelu", "silu", "hardswish", "hardsigmoid"), activation),
}
