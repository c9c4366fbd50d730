"""Graphs of torch.nn.Module: `described` records one by torch.export, `read` makes a Graph of the record.

Only `described` needs PyTorch (2.6 or newer). Arguments have the names of PyTorch's operator schemas.
"""

from __future__ import annotations

import collections
from typing import Any

from .graph import Graph, Node, Value, ValueKind

CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")

# Operators without "aten::" and overload; SAME_NAMES holds the operators with a canonical name.
CANONICAL_NAMES = {
    "conv2d": "conv",
    "addmm": "gemm",
    "mm": "matmul",
    "bmm": "matmul",
    "hardtanh": "clip",
    "clamp": "clip",
    "bernoulli": "noise",
    "max_pool2d": "max_pool",
    "avg_pool2d": "avg_pool",
    "adaptive_avg_pool2d": "adaptive_avg_pool",
    "reshape": "view",
    "_unsafe_view": "view",
    "flatten": "view",
    "unflatten": "view",
    "squeeze": "view",
    "unsqueeze": "view",
    "expand": "view",
    "t": "transpose",
    "contiguous": "same",
    "clone": "same",
    "to": "same",
    "_to_copy": "same",
    "alias": "same",
    "detach": "same",
    "slice": "part",
    "select": "part",
    "getitem": "part",
    "split": "parts",
    "split_with_sizes": "parts",
    "chunk": "parts",
    "unbind": "parts",
    "cat": "concat",
    "scaled_dot_product_attention": "attention",
    "_softmax": "softmax",
    "where": "mask",
    "masked_fill": "mask",
    "wrap_with_set_grad_enabled": "constant",  # torch.no_grad(): trains nothing
}
SAME_NAMES = (
    "linear", "matmul", "batch_norm", "layer_norm", "group_norm", "rms_norm", "relu", "relu6", "leaky_relu",
    "sigmoid", "tanh", "gelu", "silu", "hardswish", "hardsigmoid", "dropout", "mean", "permute", "transpose", "add",
    "sub", "rsub", "mul", "div", "pow", "sqrt", "rsqrt", "erf", "neg", "embedding", "softmax", "view",
)  # fmt: skip
CANONICAL_ARGUMENTS = {
    "kernel_size": "kernel",
    "output_size": "out",
    "min_val": "min",
    "max_val": "max",
    "dropout_p": "p",
}
OPTIONAL_TENSORS = ("weight", "bias", "attn_mask")


def described(module: Any, inputs: tuple[Any, ...], named: dict[str, Any], title: str = "") -> dict[str, Any]:
    """The graph of `module` called with `inputs` and `named` (a batch of at least two samples), as a dict for JSON."""
    import torch  # type: ignore[import-not-found, unused-ignore]

    module.train()
    program = torch.export.export(module, inputs, named)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    first_names = {id(tensor): name for name, tensor in reversed(list(parameters.items()))}
    blocks = _repeated(module)
    values: dict[str, Any] = {}
    nodes = []
    for node in program.graph.nodes:
        if node.op == "placeholder":
            value = _described_value(node, program.graph_signature, parameters, first_names)
            if value is not None:
                values[node.name] = value
        elif node.op == "call_function":
            nodes.append(_described_node(node, blocks))
    outputs = [name for name in program.graph_signature.user_outputs if isinstance(name, str)]
    return {"title": title or type(module).__name__, "values": values, "nodes": nodes, "outputs": outputs}


def _described_value(
    node: Any, signature: Any, parameters: dict[str, Any], first_names: dict[int, str]
) -> dict[str, Any] | None:
    name = signature.inputs_to_parameters.get(node.name)
    if name is not None:
        tensor = parameters[name]
        return {"parameter": first_names[id(tensor)], "shape": _shape(tensor)}
    value = node.meta.get("val")
    if node.name not in signature.user_inputs:
        return {"constant": node.name, "shape": _shape(value)}
    if hasattr(value, "shape"):
        return {"input": node.name, "shape": _shape(value), "tokens": not value.dtype.is_floating_point}
    return None


def _described_node(node: Any, blocks: set[str]) -> dict[str, Any]:
    path = [key.replace("L['self']", "").strip(".") for key, _ in node.meta.get("nn_module_stack", {}).values()]
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else []
    arguments = dict(zip(names, node.args)) if names else dict(enumerate(node.args))
    arguments.update(node.kwargs)
    # Higher-order operators (torch.no_grad() around a part) name the part by an attribute.
    arguments = {key: value for key, value in arguments.items() if getattr(value, "op", "") != "get_attr"}
    return {
        "name": node.name,
        "op": str(node.target) if schema else getattr(node.target, "__name__", str(node.target)),
        "module": path[-1] if path else "",
        "block": next((name for name in path if name in blocks), ""),
        "arguments": {str(key): _plain(value) for key, value in arguments.items()},
        "shape": _shape(node.meta.get("val")),
    }


def _repeated(module: Any) -> set[str]:
    """The outermost modules whose class occurs more than once, without containers and leaves: FSDP wraps them."""

    def is_container(candidate: Any) -> bool:
        return any(base.__name__ in CONTAINERS for base in type(candidate).__mro__)

    candidates = {
        name: type(candidate)
        for name, candidate in module.named_modules()
        if name and any(True for _ in candidate.children()) and not is_container(candidate)
    }
    often = {kind for kind, count in collections.Counter(candidates.values()).items() if count > 1}
    names = {name for name, kind in candidates.items() if kind in often}
    return {name for name in names if not any(name.startswith(other + ".") for other in names)}


def _plain(value: Any) -> Any:
    """An argument for JSON; a tensor becomes {"value": name of the node}."""
    if hasattr(value, "op") and hasattr(value, "meta"):
        return {"value": value.name}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)  # dtypes, devices, memory formats


def _shape(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [_shape(item) for item in value]
    return [int(size) for size in value.shape] if hasattr(value, "shape") else []


def read(document: dict[str, Any], source: str) -> Graph:
    """The graph that `described` recorded. `source` names the module in errors."""
    graph = Graph(source, document["title"], outputs=document["outputs"])
    graph.known = sorted({*CANONICAL_NAMES, *SAME_NAMES})
    for name, value in document["values"].items():
        kind = next(kind for kind in ValueKind if kind.value in value)
        graph.values[name] = Value(kind, tuple(value["shape"]), value[kind.value], value.get("tokens", False))
    for record in document["nodes"]:
        if not record["op"].startswith("aten._assert_"):
            graph.nodes.append(_read_node(record))
    return graph


def _read_node(record: dict[str, Any]) -> Node:
    written, shape = record["op"], record["shape"]
    node = Node("", written, record["name"], record["module"], record["block"], outputs=[record["name"]])
    if all(isinstance(size, int) for size in shape):  # one tensor, not a list of tensors
        node.shape = tuple(shape)
    name = written[len("aten.") :] if written.startswith("aten.") else written
    name = name.partition(".")[0]
    if len(name) > 1 and name.endswith("_") and not name.endswith("__"):  # aten.relu_.default is relu, in place
        name = name[:-1]
        node.numbers["inplace"] = [1]
    node.op = CANONICAL_NAMES.get(name, name if name in SAME_NAMES else "")
    for argument, value in record["arguments"].items():
        _read_argument(node, CANONICAL_ARGUMENTS.get(argument, argument), value)
    node.compares = written.startswith("aten.tri") or (
        written.startswith(("aten.le.", "aten.lt.", "aten.ge.", "aten.gt.")) and len(node.inputs) == 2
    )
    return node


def _read_argument(node: Node, name: str, value: Any) -> None:
    if isinstance(value, dict):
        node.inputs.append(value["value"])
    elif value is None:
        if name in OPTIONAL_TENSORS:
            node.inputs.append("")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        node.inputs += [tensor["value"] if isinstance(tensor, dict) else "" for tensor in value]
    elif name == "padding" and isinstance(value, str):  # "same" stands for no number
        node.numbers[name] = []
    elif isinstance(value, list):  # symbolic sizes are texts
        node.numbers[name] = [float(number) if isinstance(number, (int, float)) else 0 for number in value]
    elif isinstance(value, (int, float)):
        node.numbers[name] = [float(value)]
