"""Graphs of ONNX models (the package onnx, 1.12 or newer), without their weights.

Operators and attributes have the names of the default domain, operator sets 7 to 24.
"""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path
from typing import Any, Iterator, NoReturn

from .._program import ConfigError
from .graph import Graph, Node, Value, ValueKind, problem, refuse

# Other operators may compute values on which the input has no effect.
CANONICAL_NAMES = {
    "Conv": "conv",
    "Gemm": "gemm",
    "MatMul": "matmul",
    "BatchNormalization": "batch_norm",
    "LayerNormalization": "layer_norm",
    "GroupNormalization": "group_norm",
    "RMSNormalization": "rms_norm",
    "SimplifiedLayerNormalization": "rms_norm",
    "Relu": "relu",
    "LeakyRelu": "leaky_relu",
    "Gelu": "gelu",
    "HardSwish": "hardswish",
    "HardSigmoid": "hardsigmoid",
    "Clip": "clip",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Erf": "erf",
    "Pow": "pow",
    "Sqrt": "sqrt",
    "Reciprocal": "reciprocal",
    "Neg": "neg",
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Dropout": "dropout",
    "MaxPool": "max_pool",
    "AveragePool": "avg_pool",
    "GlobalAveragePool": "adaptive_avg_pool",
    "ReduceMean": "mean",
    "Flatten": "view",
    "Reshape": "view",
    "Squeeze": "view",
    "Unsqueeze": "view",
    "Expand": "view",
    "Transpose": "permute",
    "Identity": "same",
    "Cast": "same",
    "CastLike": "same",
    "Slice": "part",
    "Gather": "part",
    "Split": "parts",
    "Concat": "concat",
    "Softmax": "softmax",
    "Where": "mask",
    "Attention": "attention",
    "Shape": "constant",
    "Size": "constant",
}
DOMAINS = ("", "ai.onnx", "com.microsoft")
COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
FEW = 64  # the largest constant whose numbers are kept: shapes, indices, limits


def read(path: str) -> Graph:
    """Raises ConfigError: the file cannot be read, is damaged, or is no ONNX model; or the package onnx is missing."""
    try:
        import onnx  # type: ignore[import-not-found, unused-ignore]
        import onnx.helper  # type: ignore[import-not-found, unused-ignore]
        import onnx.numpy_helper  # type: ignore[import-not-found, unused-ignore]
        from google.protobuf.message import DecodeError  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ConfigError(problem(path, "", "needs the Python package onnx", "Debian: python3-onnx"), 2) from error
    try:
        content = Path(path).read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(problem(path, "", f"cannot be read: {error}"), 2) from error
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError as error:
        raise ConfigError(problem(path, "", "is no ONNX model, or was not written to the end"), 2) from error
    if not model.HasField("graph"):
        raise ConfigError(problem(path, "graph", "missing: this is no ONNX model"), 2)
    if not all(isinstance(name, str) for name in _names(model.graph)):  # bytes where a text is not UTF-8
        raise ConfigError(problem(path, "graph", "has names that are no UTF-8"), 2)
    return _Reader(path, onnx).read(model.graph)


def _names(graph: Any) -> Iterator[Any]:
    for named in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        yield named.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        for entry in getattr(node, "metadata_props", ()):
            yield from (entry.key, entry.value)


class _Reader:
    def __init__(self, path: str, onnx: Any) -> None:
        self.onnx = onnx
        self.graph = Graph(path, title=Path(path).name.partition(".")[0], known=sorted(CANONICAL_NAMES))
        self.constants: dict[str, list[float]] = {}  # numbers of a constant, where the file has them and they are few
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.tables: set[str] = set()  # constants that have rows of floats

    def read(self, file: Any) -> Graph:
        for tensor in file.initializer:
            self.add_initializer(tensor)
        for info in (*file.input, *file.output, *file.value_info):
            if info.type.tensor_type.HasField("shape"):
                # -1: a size that is not a number, mostly the batch.
                self.shapes[info.name] = tuple(
                    size.dim_value if size.HasField("dim_value") else -1 for size in info.type.tensor_type.shape.dim
                )
        for info in file.input:  # before IR version 4 `initializers` are inputs, too
            if info.name not in self.graph.values:
                types = self.onnx.TensorProto
                tokens = info.type.tensor_type.elem_type in (types.INT32, types.INT64)
                shape = self.shapes.get(info.name, ())
                self.graph.values[info.name] = Value(ValueKind.INPUT, shape, info.name, tokens)
        self.graph.outputs = [info.name for info in file.output]
        for record in file.node:
            self.read_node(record)
        _set_blocks(self.graph.nodes)
        return self.graph

    # --- constants

    def add_initializer(self, tensor: Any) -> None:
        types = self.onnx.TensorProto
        is_float = tensor.data_type in (types.FLOAT, types.FLOAT16, types.DOUBLE, types.BFLOAT16)
        value = Value(ValueKind.CONSTANT, tuple(tensor.dims), tensor.name)
        if is_float and value.count > 1:
            value = Value(ValueKind.PARAMETER, value.shape, tensor.name)
        if is_float and len(value.shape) == 2:
            self.tables.add(tensor.name)
        self.graph.values[tensor.name] = value
        self.keep(tensor.name, self.numbers_of(tensor))

    def numbers_of(self, tensor: Any) -> list[float] | None:
        count = 1
        for size in tensor.dims:
            count *= size
        if count > FEW or tensor.data_location == self.onnx.TensorProto.EXTERNAL:
            return None
        try:
            return [float(number) for number in self.onnx.numpy_helper.to_array(tensor).flatten()]
        except (ValueError, TypeError, KeyError):  # the numbers are not in the file, or are texts
            return None

    def keep(self, name: str, numbers: list[float] | None) -> None:
        if numbers is not None:
            self.constants[name] = numbers

    def constant(self, node: Node, index: int) -> list[float] | None:
        return self.constants.get(node.inputs[index]) if index < len(node.inputs) else None

    def pass_constants(self, node: Node) -> None:
        """Exporters cast and reshape constants in the graph, and join them to shapes."""
        if node.op in ("same", "view", "concat"):
            parts = [self.constant(node, i) for i in range(len(node.inputs) if node.op == "concat" else 1)]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                self.keep(node.outputs[0], [number for part in known for number in part])

    # --- nodes

    def read_node(self, record: Any) -> None:
        if not record.output:
            raise ConfigError(problem(self.graph.source, "graph", f"node '{record.name}' has no output"), 2)
        attributes = {attribute.name: self.attribute_of(attribute) for attribute in record.attribute}
        if record.op_type == "Constant" and record.domain in DOMAINS:
            self.add_constant(record, attributes)
            return
        is_own = record.domain in DOMAINS
        name = record.name or record.output[0]
        node = Node(
            CANONICAL_NAMES.get(record.op_type, "") if is_own else "",
            record.op_type if is_own else f"{record.domain}.{record.op_type}",
            name,
            _module_in_metadata(record) or _module_in_name(name),
            inputs=list(record.input),
            outputs=list(record.output),
            shape=self.shapes.get(record.output[0], ()),
        )
        self.pass_constants(node)
        self.finish(node, attributes)
        self.graph.nodes.append(node)

    def attribute_of(self, attribute: Any) -> Any:
        """Numbers as a list; a tensor or a text as it is."""
        try:
            value = self.onnx.helper.get_attribute_value(attribute)
        except ValueError:  # an attribute without a type
            return []
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (int, float)):
            return [float(value)]
        if attribute.type in (self.onnx.AttributeProto.FLOATS, self.onnx.AttributeProto.INTS):
            return [float(number) for number in value]
        return value if isinstance(value, self.onnx.TensorProto) else []

    def add_constant(self, record: Any, attributes: dict[str, Any]) -> None:
        numbers: list[float] | None = None
        shape: tuple[int, ...] = ()
        for attribute in attributes.values():
            if isinstance(attribute, self.onnx.TensorProto):
                numbers, shape = self.numbers_of(attribute), tuple(attribute.dims)
            elif isinstance(attribute, list):
                numbers = attribute
        for output in record.output:
            self.keep(output, numbers)
            self.graph.values[output] = Value(ValueKind.CONSTANT, shape, output)

    def finish(self, node: Node, attributes: dict[str, Any]) -> None:
        """Turns ONNX's attributes and constant inputs into canonical numbers."""

        def take(name: str, canonical: str, index: int | None = None) -> None:
            """Takes an attribute; in newer operator sets an input."""
            if name in attributes:
                node.numbers[canonical] = _numbers(attributes, name)
            if index is not None and index < len(node.inputs):
                numbers = self.constant(node, index)
                if numbers is not None:
                    node.numbers[canonical] = numbers
                node.inputs[index] = ""

        op, written = node.op, node.written
        if op in ("conv", "max_pool", "avg_pool"):
            self.take_windows(node, attributes)
            take("group", "groups")
        elif op == "gemm":
            if len(node.inputs) < 2:
                self.fail(node, "has no weight")
            node.inputs = [node.inputs[2] if len(node.inputs) > 2 else "", *node.inputs[:2]]
            take("transB", "transposed")
        elif op == "group_norm":
            take("num_groups", "num_groups")
        elif op == "layer_norm":
            if any(axis not in (-1, len(node.shape) - 1) for axis in _numbers(attributes, "axis")):
                self.fail(node, "norms are known over the last dimension")
        elif op == "clip":
            take("min", "min", 1)
            take("max", "max", 2)
        elif op == "dropout":
            take("ratio", "p", 1)
        elif op == "mean":
            node.numbers["keepdim"] = [1]
            take("axes", "dim", 1)
            take("keepdims", "keepdim")
        elif op == "permute":
            take("perm", "dims")
        elif written == "Flatten":
            node.shape = node.shape or (-1, -1)
        elif written == "Slice":
            node.numbers["start"] = self.constant(node, 1) or [0]
        elif written == "Gather":
            self.finish_gather(node)
        elif op == "attention":
            take("is_causal", "is_causal")
            del node.inputs[4:]
        if op in ("dropout", "view", "parts", "same") or written == "Slice":
            del node.inputs[1:]
        if op in ("relu", "leaky_relu", "clip"):
            node.numbers["inplace"] = [1]
        both_vary = self.constant(node, 0) is None and self.constant(node, 1) is None
        node.compares = written == "Trilu" or (written in COMPARISONS and both_vary)

    def take_windows(self, node: Node, attributes: dict[str, Any]) -> None:
        auto_pad = attributes.get("auto_pad", "NOTSET")
        if auto_pad not in ("NOTSET", "VALID"):
            self.fail(node, f"auto_pad {auto_pad} is not known", "give pads in numbers")
        pads = _numbers(attributes, "pads")
        if len(pads) == 4:
            if pads[:2] != pads[2:]:
                self.fail(node, "its padding differs before and after")
            node.numbers["padding"] = pads[:2]
        node.numbers["stride"] = [1]
        names = {"strides": "stride", "dilations": "dilation", "kernel_shape": "kernel", "ceil_mode": "ceil_mode"}
        for name, canonical in names.items():
            if _numbers(attributes, name):
                node.numbers[canonical] = attributes[name]

    def finish_gather(self, node: Node) -> None:
        """Rows of a table by ids, or one index of a dimension."""
        if len(node.inputs) < 2:
            self.fail(node, "has no indices")
        index = self.constant(node, 1)
        if node.inputs[0] in self.tables:
            node.op = "embedding"
        elif index is not None and len(index) == 1:
            node.numbers["index"] = index
            del node.inputs[1:]

    def fail(self, node: Node, message: str, hint: str = "") -> NoReturn:
        refuse(self.graph.source, node, message, hint)


def _numbers(attributes: dict[str, Any], name: str) -> list[float]:
    numbers = attributes.get(name)
    return numbers if isinstance(numbers, list) else []


# --- modules and blocks


def _module_in_metadata(record: Any) -> str:
    """PyTorch's exporter records the modules around a node (onnx 1.16 or newer reads them)."""
    for entry in getattr(record, "metadata_props", ()):
        if entry.key == "pkg.torch.onnx.name_scopes":
            scopes: list[str] = re.findall(r"'([^']*)'", entry.value)
            return scopes[-2] if len(scopes) >= 2 else ""
    return ""


def _module_in_name(name: str) -> str:
    """PyTorch's first exporter names nodes by module: layer1.0.conv1 runs "/layer1/layer1.0/conv1/Conv"."""
    if not name.startswith("/"):
        return ""
    path: list[str] = []
    for scope in name.split("/")[1:-1]:
        # A container's children bear its name: layer1, layer1.0.
        if path and scope.startswith(path[-1] + "."):
            path.pop()
        path += scope.split(".")
    return ".".join(path)


def _family(path: str) -> str:
    return path.rstrip("0123456789")


def _numbered_paths(module: str) -> list[str]:
    """The module and the modules around it that have a number of their own: "layer1.0", not "layer1"."""
    parts = module.split(".")
    paths = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [path for path in paths if _family(path) != path and _family(path)[-1:] in ("", ".", "_")]


def _set_blocks(nodes: list[Node]) -> None:
    """Finds repeated modules by their names: the outermost that end in a number of their own ("layer1.0",
    "encoder_layer_0"), hold more than one module, and have neighbours."""
    held: dict[str, set[str]] = {}
    for node in nodes:
        for path in _numbered_paths(node.module):
            held.setdefault(path, set()).add(node.module)
    blocks = {path for path, modules in held.items() if len(modules) > 1}
    families = [_family(path) for path in blocks]
    repeated = {path for path in blocks if families.count(_family(path)) > 1}
    for node in nodes:
        node.block = next((path for path in _numbered_paths(node.module) if path in repeated), "")
