"""Model files (docs/model-format.md) of a list of layers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Union

Arguments = Union["dict[str, object]", str]


class Form(Enum):
    """The form of a layer's output."""

    IMAGE = "image"
    IMAGE_LAST = "image, channels last"
    SEQUENCE = "sequence"
    VECTOR = "vector"
    TOKENS = "tokens"


@dataclass
class Layer:
    name: str  # full path, unique
    block: str  # path of the repeated module around it; "" = none
    op: str
    arguments: Arguments  # by name; a text where the format has no name for its only argument
    sources: list[str]  # names of layers, or "input"; often only the layer before
    form: Form = Form.IMAGE
    features: int = 0  # a linear layer's output; 0 = as its input
    parameters: dict[str, int] = field(default_factory=dict)  # numbers in each parameter


@dataclass
class ImportedModel:
    """A model read from another program's description."""

    origin: str  # file or module, for the comment at the head
    title: str
    layers: list[Layer]
    image: tuple[int, ...] = ()  # channels, height, width; empty for token models
    tokens: int = 0  # per sample; 0 = an image
    classes: int = 0  # 0 = none
    notes: list[str] = field(default_factory=list)  # differences between the model and the original

    @property
    def parameters(self) -> int:
        """The number of trained numbers; numbers that several layers share count once."""
        held: dict[str, int] = {}
        for layer in self.layers:
            held.update(layer.parameters)
        return sum(held.values())

    def text(self, published: int | None = None) -> str:
        """The model file. `published` becomes its published count of parameters."""
        title = _on_one_line(self.title).replace("\\", "\\\\").replace('"', '\\"')
        inputs = []
        if self.image:
            inputs.append(f"image: [{', '.join(map(str, self.image))}]")
        if self.tokens:
            inputs.append(f"tokens: {self.tokens}")
        if self.classes:
            inputs.append(f"classes: {self.classes}")
        lines = [f"# Imported from {_on_one_line(self.origin)}", f'title: "{title}"']
        lines.append(f"input: {{{', '.join(inputs)}}}")
        if published is not None:
            lines.append(f'published: {{parameters: {published}, source: "given when imported"}}')
        return "\n".join(lines) + "\n" + layers_text(self.layers)


def _on_one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f]", " ", text)


def layers_text(layers: list[Layer]) -> str:
    """YAML from the line "layers:" to the end. Layers of a block stand in a `repeat`. Blocks that follow each other
    with consecutive numbers and look alike share one `repeat`."""
    return _Writer(layers).text()


def _numbered(path: str) -> tuple[str, int] | None:
    """ "layer1.12" is "layer1." and 12."""
    found = re.search(r"(?<![0-9])(0|[1-9][0-9]{0,5})\Z", path)
    return (path[: found.start()], int(found[0])) if found else None


def _arguments_text(arguments: Arguments) -> str:
    if isinstance(arguments, str):
        return arguments
    words = [f"{name}: {str(value).lower() if isinstance(value, bool) else value}" for name, value in arguments.items()]
    return f"{{{', '.join(words)}}}" if words else ""


class _Writer:
    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers
        self.names = {layer.name for layer in layers}
        self.blocks: dict[str, range] = {}
        broken = set()  # blocks that do not run in one piece
        for i, layer in enumerate(layers):
            if layer.block:
                begun = self.blocks.get(layer.block, range(i, i))
                if begun.stop != i:
                    broken.add(layer.block)
                self.blocks[layer.block] = range(begun.start, i + 1)
        self.blocks = {
            path: places
            for path, places in self.blocks.items()
            if path not in broken and self.is_writable(path, places)
        }

    def is_writable(self, path: str, places: range) -> bool:
        """Names inside must begin with the block's. A name from outside must not mean another layer in the block: the
        search for names goes from the inside out."""
        if _numbered(path) is None:
            return False
        parts = path.split(".")
        scopes = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for layer in self.layers[places.start : places.stop]:
            if not layer.name.startswith(path + "."):
                return False
            for source in layer.sources:
                if source.startswith(path + ".") or source == self.before(places.start):
                    continue
                # Inside, "input" is the block's own.
                if source == "input" or any(f"{scope}.{source}" in self.names for scope in scopes):
                    return False
        return True

    def before(self, i: int) -> str:
        return self.layers[i - 1].name if i > 0 else "input"

    def text(self) -> str:
        result, i = "layers:\n", 0
        while i < len(self.layers):
            block = self.layers[i].block
            if block not in self.blocks:
                result += self.layer_text(i, "  ")
                i += 1
                continue
            prefix, first = _numbered(block) or ("", 0)
            body, count = self.body_text(block), 0
            while i < len(self.layers):
                block = self.layers[i].block
                if block not in self.blocks or _numbered(block) != (prefix, first + count):
                    break
                if self.body_text(block) != body:
                    break
                count += 1
                i = self.blocks[block].stop
            index = f"{{{first}}}" if count == 1 else f"{{i + {first}}}" if first else "{i}"
            result += f"  - name: {prefix}{index}\n    repeat:\n      count: {count}\n      layers:\n{body}"
        return result

    def body_text(self, block: str) -> str:
        places = self.blocks[block]
        return "".join(self.layer_text(i, "        ", places) for i in places)

    def layer_text(self, i: int, indent: str, block: range | None = None) -> str:
        """`block`: the places of the block around the layer."""
        layer = self.layers[i]
        inside = layer.block + "." if block is not None else ""

        def name_inside(source: str) -> str:
            if source.startswith(inside):
                return source[len(inside) :]
            return "input" if block is not None and source == self.before(block.start) else source

        arguments = _arguments_text(layer.arguments)
        text = f"{indent}- {layer.op}:{' ' + arguments if arguments else ''}\n"
        text += f"{indent}  name: {layer.name[len(inside) :]}\n"
        if layer.sources == [self.before(i)]:
            return text
        sources = [name_inside(source) for source in layer.sources]
        return text + f"{indent}  from: {sources[0] if len(sources) == 1 else '[' + ', '.join(sources) + ']'}\n"
