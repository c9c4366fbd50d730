"""Operators that are a layer only together: GELU written as erf and products, layer norm as means and roots.

During the walk over a graph they are an expression over one layer's output.
"""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Value


@dataclass(frozen=True)
class Expression:
    operators: frozenset[str] = frozenset()  # canonical names
    parameters: tuple[Value, ...] = ()  # factors and summands, in this order


def recognised(expression: Expression) -> tuple[str, dict[str, object]] | None:
    """The layer of an expression, and its arguments; "" is a factor, as attention's scale; None is no layer that the
    model format knows. The caller adds the heads of a rotary embedding."""
    ops, parameters = expression.operators, len(expression.parameters)
    if "mean" in ops and ops & {"sqrt", "rsqrt", "pow"}:
        if "sub" not in ops:  # layer norm subtracts the mean, RMS norm does not
            return ("rms_norm", {}) if parameters == 1 else None
        if parameters == 0:
            return "layer_norm", {"affine": False}
        return "layer_norm", {"bias": False} if parameters == 1 else {}
    if parameters > 0:
        return None
    if {"concat", "mul"} <= ops:
        return "rotary", {}
    if "erf" in ops or {"tanh", "mul"} <= ops:
        return "gelu", {}
    if "sigmoid" in ops:
        return ("silu" if "mul" in ops else "sigmoid"), {}
    if ops == {"tanh"}:
        return "tanh", {}
    if {"clip", "add"} <= ops:
        return "hardswish", {}
    return ("", {}) if ops in ({"mul"}, {"div"}) else None
