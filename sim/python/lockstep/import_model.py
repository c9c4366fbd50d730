"""Model files (docs/model-format.md) of genuine torch.nn.Modules and of ONNX models.

    python -m lockstep.import_model torchvision.models:resnet50 --image 3 224 224 -o my-resnet50.yaml
    python -m lockstep.import_model resnet50.onnx -o my-resnet50.yaml

or, with the module at hand,

    lockstep.import_model.write(module, torch.zeros(2, 3, 224, 224), "my-resnet50.yaml")

Modules need PyTorch 2.6 or newer, ONNX the package onnx; the rest of the package needs neither. torch.export follows
the module in training mode with shapes alone: no kernel runs, and a module made under `torch.device("meta")` needs
no memory.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from ._program import ConfigError
from .imports import arithmetic_rules, attention_rules, layer_rules, onnx_graph, torch_graph, view_rules
from .imports.graph import Graph, problem
from .imports.model_text import ImportedModel
from .imports.walk import Walk

__all__ = ["ImportedModel", "of_graph", "of_module", "of_onnx", "write"]

SAMPLES = 2
RULES = {**layer_rules.RULES, **arithmetic_rules.RULES, **view_rules.RULES, **attention_rules.RULES}


def of_graph(graph: Graph) -> ImportedModel:
    """The model of a graph. Raises ConfigError."""
    return Walk(graph, RULES).model()


def of_module(module: Any, inputs: Any, title: str = "") -> ImportedModel:
    """The model of a torch.nn.Module. `inputs`: a batch of at least two samples, as a tensor, a tuple of tensors, or a
    dict by name. Raises ConfigError."""
    named = inputs if isinstance(inputs, dict) else {}
    plain = () if named else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    record = torch_graph.described(module, plain, named, title)
    return of_graph(torch_graph.read(record, record["title"]))


def of_onnx(path: str) -> ImportedModel:
    """The model of an ONNX file. Raises ConfigError."""
    return of_graph(onnx_graph.read(path))


def write(module: Any, inputs: Any, path: str, title: str = "") -> None:
    """Writes the model file of a torch.nn.Module (see `of_module`)."""
    Path(path).write_text(of_module(module, inputs, title).text(), encoding="utf-8")


def _named_module(name: str, image: list[int] | None, tokens: int) -> ImportedModel:
    """The model of PACKAGE.MODULE:CALLABLE."""
    sys.path.insert(0, "")
    package, _, function = name.partition(":")
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]

        make = getattr(importlib.import_module(package), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(problem(name, "", f"cannot be imported: {error}"), 2) from error
    try:
        with torch.device("meta"):
            module = make()
    except (NotImplementedError, RuntimeError):  # the module looks at values during its construction
        module = make()
    with torch.device(next(module.parameters()).device):
        inputs = torch.zeros(SAMPLES, *image) if image else torch.zeros(SAMPLES, tokens, dtype=torch.long)
    return of_module(module, inputs, f"{type(module).__name__} ({name})")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lockstep.import_model", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "source", help="an ONNX file, or PACKAGE.MODULE:CALLABLE, called without arguments, that makes a module"
    )
    parser.add_argument("--image", nargs=3, type=int, metavar=("C", "H", "W"), help="the module's input is an image")
    parser.add_argument("--tokens", type=int, metavar="N", help="the module's input is N token ids")
    parser.add_argument("--parameters", type=int, metavar="COUNT", help="count that the model must have")
    parser.add_argument("-o", "--output", metavar="FILE", help="the model file, *.yaml (default: print)")
    arguments = parser.parse_args(words)
    source, image, tokens = arguments.source, arguments.image, arguments.tokens
    is_module = ":" in source and not Path(source).exists()
    if is_module and (image is None) == (tokens is None):
        parser.error("a module needs one of --image and --tokens")
    if not is_module and (image or tokens):
        parser.error(f"--image and --tokens are for modules, and {source!r} is no PACKAGE.MODULE:CALLABLE")
    if arguments.output and not arguments.output.endswith(".yaml"):
        parser.error("--output: a model file's name ends in .yaml")
    try:
        model = _named_module(source, image, tokens) if is_module else of_onnx(source)
        if arguments.parameters not in (None, model.parameters):
            message = f"--parameters: {model.origin} has {model.parameters} parameters, not {arguments.parameters}"
            raise ConfigError(message, 2)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{model.origin}: {model.parameters} parameters", *model.notes, sep="\nnote: ", file=sys.stderr)
    text = model.text(arguments.parameters)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
