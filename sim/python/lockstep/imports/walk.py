"""The walk over a graph's nodes that makes a model, and the parts that its rules share.

A rule is a function for a kind of operator: from a node to the value that it makes.

The walk ignores views, or makes them the model format's own (flatten, permute, to_tokens). Operators that belong
together become one layer (attention written out, GELU of its parts, layer norm of its parts). Layers have the names of
their parameters or modules, as in PyTorch; layers of a repeated module become a `repeat`. The model ends in
cross_entropy on the graph's first output; layers without effect on this output are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import Callable, Iterable, Mapping, NoReturn

from .._program import ConfigError
from .expression import Expression, recognised
from .graph import Graph, Node, Value, ValueKind, place_of, problem, refuse
from .model_text import Arguments, Form, ImportedModel, Layer

SHAPES_HINT = "export with torch.onnx.export(..., dynamo=True), or add shapes with onnx.shape_inference"


class Kind(Enum):
    """The part of a graph's value in the model."""

    UNKNOWN = "after an operator that is not known"
    LAYER = "a layer's output, perhaps viewed otherwise"
    EXPRESSION = "of a layer's output"
    PARAMETER = "parameter"
    CONSTANT = "known without the input"
    TABLE = "rows of an embedding that do not depend on the input: positions"
    NOISE = "coins for stochastic depth"
    SCORES = "of attention written out"
    WEIGHTS = "softmax of scores"
    PARTS = "list of parts of a layer's output"


@dataclass(frozen=True)
class Traced:
    """A value of the graph, traced back to the layer that it comes from."""

    kind: Kind = Kind.CONSTANT
    layer: str = ""  # the layer of an output or expression; the layer of the queries
    part: int = -1  # the part of a packed projection: queries, keys, values
    shape: tuple[int, ...] = ()  # as the graph has it
    expression: Expression = Expression()
    node: Node | None = None  # the first node of an expression
    value: Value | None = None  # parameter, table; a constant that no node makes
    p: float = 0  # noise: share that survives
    key_layer: str = ""  # of scores and weights
    key_part: int = -1
    masked: bool = False  # of scores and weights; a constant: made by comparing positions
    dropped: bool = False  # of weights

    @property
    def is_output(self) -> bool:
        return self.kind in (Kind.LAYER, Kind.EXPRESSION)


NOTHING = Traced()  # an input that is left out


def owner_of(parameter: str) -> str:
    """A parameter's module: layer1.0.conv1 of "layer1.0.conv1.weight", attn.in_proj of "attn.in_proj_weight"."""
    return re.sub(r"[._](weight|bias)\Z", "", parameter)


def clean(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]", "_", name)


class Walk:
    def __init__(self, graph: Graph, rules: Mapping[str, Rule]) -> None:
        self.graph = graph
        self.rules = rules
        self.layers: list[Layer] = []
        self.layer_named: dict[str, Layer] = {}
        self.tables: dict[str, str] = {}  # parameter of an embedding, its layer
        self.tokens_first: set[str] = set()  # linear layers on tokens x samples x features
        self._used: dict[str, int] = {}
        self._unknown: dict[str, list[Node]] = {}
        # Modules that contain modules.
        self._parents = {node.module[: dot.start()] for node in graph.nodes for dot in re.finditer(r"\.", node.module)}
        inputs = [
            name
            for name, value in graph.values.items()
            if value.kind == ValueKind.INPUT and len(value.shape) == (2 if value.tokens else 4)
        ]
        if not inputs:
            raise self.error(
                "has no input that is an image or token ids",
                "four dimensions of floats, or two of integers, the batch first",
            )
        self.input = graph.values[inputs[0]]
        self.traced = {name: Traced(shape=value.shape, value=value) for name, value in graph.values.items()}
        for name, traced in self.traced.items():
            if graph.values[name].kind == ValueKind.PARAMETER:
                self.traced[name] = replace(traced, kind=Kind.PARAMETER)
        form = Form.TOKENS if self.input.tokens else Form.IMAGE
        self.layer_named["input"] = Layer("input", "", "input", "", [], form)
        self.traced[inputs[0]] = Traced(Kind.LAYER, "input", shape=self.input.shape)

    def model(self) -> ImportedModel:
        """Raises ConfigError: a line for each unknown kind of operator, or the first node that the model format cannot
        express."""
        for node in self.graph.nodes:
            self._give(node, self._visited(node))
        self._refuse_unknown()
        return self._model()

    def _visited(self, node: Node) -> Traced:
        inputs = [self.input_of(node, i) for i in range(len(node.inputs))]
        kinds = {traced.kind for traced in inputs}
        if Kind.UNKNOWN in kinds:
            return Traced(Kind.UNKNOWN)
        if node.op == "constant" or (kinds <= {Kind.CONSTANT} and node.op != "noise"):
            masked = any(traced.masked for traced in inputs if traced.kind == Kind.CONSTANT)
            return Traced(masked=node.compares or masked)
        if node.op in self.rules:
            return self.rules[node.op](self, node)
        self._unknown.setdefault(node.written, []).append(node)
        return Traced(Kind.UNKNOWN)

    def _give(self, node: Node, traced: Traced) -> None:
        if traced.kind == Kind.PARTS and len(node.outputs) > 1:
            for part, output in enumerate(node.outputs):
                self.traced[output] = replace(traced, kind=Kind.LAYER, part=part, shape=node.shape)
            return
        for i, output in enumerate(node.outputs):
            self.traced[output] = replace(traced, shape=node.shape if i == 0 else ())

    # --- errors

    def error(self, message: str, hint: str = "", place: str = "") -> ConfigError:
        return ConfigError(problem(self.graph.source, place, message, hint), 2)

    def fail(self, node: Node, message: str, hint: str = "") -> NoReturn:
        refuse(self.graph.source, node, message, hint)

    def _refuse_unknown(self) -> None:
        lines = []
        for written, nodes in sorted(self._unknown.items()):
            times = f" (at {len(nodes)} nodes)" if len(nodes) > 1 else ""
            message = f"the operator '{written}' is not known{times}"
            lines.append(problem(self.graph.source, place_of(nodes[0]), message))
        if lines:
            raise ConfigError("\n".join(lines) + "; known: " + ", ".join(self.graph.known), 2)

    # --- inputs of a node

    def input_of(self, node: Node, index: int) -> Traced:
        if not node.has_input(index):
            return NOTHING
        found = self.traced.get(node.inputs[index])
        if found is None:
            self.fail(node, f"reads '{node.inputs[index]}', which no node before it makes")
        return found

    def layer(self, node: Node, index: int) -> Traced:
        """The layer behind an input. An expression becomes a layer."""
        traced = self.input_of(node, index)
        if traced.kind == Kind.LAYER:
            return traced
        if traced.kind != Kind.EXPRESSION or traced.node is None:
            self.fail(node, f"its input {index + 1} is no layer's output")
        found = recognised(traced.expression)
        if found is None:
            raise self.error(
                f"the operators from here to {node.name} ({', '.join(sorted(traced.expression.operators))}) make no "
                "layer that is known",
                "known: gelu, silu, hardswish, layer norm, RMS norm and rotary embedding of their parts",
                place_of(traced.node),
            )
        op, arguments = found
        made = replace(traced, kind=Kind.LAYER, expression=Expression())
        if op:
            parameters = traced.expression.parameters
            name = owner_of(parameters[0].name) if parameters else self.name_at(traced.node, op)
            if op == "rotary":
                arguments = {"heads": traced.shape[1] if len(traced.shape) == 4 else 1}
            made = self.emit(
                traced.node, name, op, arguments, [traced], self.form_of(traced), parameters, self.features_of(traced)
            )
            made = replace(made, shape=traced.shape)
        self.traced[node.inputs[index]] = made
        return made

    def weight(self, node: Node, index: int) -> tuple[Traced, Value]:
        """A module's parameter; an error where the graph computes the tensor."""
        traced = self.input_of(node, index)
        if traced.kind != Kind.PARAMETER or traced.value is None:
            self.fail(node, f"its input {index + 1} is no parameter", "weights that are computed are not known")
        return traced, traced.value

    def sizes(self, node: Node, traced: Traced, least: int) -> tuple[int, ...]:
        """The shape of a value with at least `least` dimensions."""
        if not traced.shape:
            self.fail(node, "the shape of one of its inputs is not in the file", SHAPES_HINT)
        if len(traced.shape) < least:
            self.fail(node, f"one of its inputs has {len(traced.shape)} dimensions, not {least}")
        return traced.shape

    def form_of(self, traced: Traced) -> Form:
        return self.layer_named[traced.layer].form

    def features_of(self, traced: Traced) -> int:
        return self.layer_named[traced.layer].features

    # --- outputs of a node

    def name_at(self, node: Node, op: str) -> str:
        """The name of the module that runs the node, where it is a leaf."""
        if not node.module:
            return op
        is_leaf = node.module != node.block and node.module not in self._parents
        return node.module if is_leaf else f"{node.module}.{op}"

    def named_after(self, node: Node, parameter: Value, op: str) -> str:
        """The name of the parameter, unless an exporter made it up."""
        made_up = "::" in parameter.name or parameter.name.startswith(("val_", "_"))
        return self.name_at(node, op) if made_up else owner_of(parameter.name)

    def emit(
        self,
        node: Node,
        name: str,
        op: str,
        arguments: Arguments,
        sources: Iterable[Traced],
        form: Form,
        parameters: Iterable[Value | None] = (),
        features: int = 0,
    ) -> Traced:
        """The output of a new layer."""
        layer = Layer(
            self._unique(name), clean(node.block), op, arguments, [source.layer for source in sources], form, features
        )
        layer.parameters = {value.name: value.count for value in parameters if value is not None}
        self.layers.append(layer)
        self.layer_named[layer.name] = layer
        return Traced(Kind.LAYER, layer.name, shape=node.shape)

    def _unique(self, name: str) -> str:
        name = clean(name)
        while True:
            count = self._used[name] = self._used.get(name, 0) + 1
            if count == 1:
                return name
            name = f"{name}_{count}"

    # --- the model

    def _model(self) -> ImportedModel:
        if not self.graph.outputs:
            raise self.error("the graph has no output", place="outputs")
        output = self.traced.get(self.graph.outputs[0], NOTHING)
        if output.kind != Kind.LAYER or output.layer == "input":
            raise self.error(f"'{self.graph.outputs[0]}' is no layer's output", place="outputs")
        head = self.layer_named[output.layer]
        if head.form not in (Form.VECTOR, Form.SEQUENCE):
            hint = "networks for classes or next tokens are known"
            raise self.error("the first output is an image", hint, "outputs")
        classes = 0
        if head.form == Form.VECTOR and head.op == "linear" and isinstance(head.arguments, dict):
            classes = head.features
            head.arguments["out"] = "classes"
        self.layers.append(Layer(self._unique("cross_entropy"), "", "cross_entropy", "", [head.name]))
        shape = self.input.shape
        return ImportedModel(
            self.graph.source,
            self.graph.title,
            self._needed(),
            image=() if self.input.tokens else shape[1:],
            tokens=shape[1] if self.input.tokens else 0,
            classes=classes,
            notes=["of several outputs the first was taken"] if len(self.graph.outputs) > 1 else [],
        )

    def _needed(self) -> list[Layer]:
        needed = {self.layers[-1].name}
        for layer in reversed(self.layers):
            if layer.name in needed:
                needed.update(layer.sources)
        return [layer for layer in self.layers if layer.name in needed]


Rule = Callable[[Walk, Node], Traced]
