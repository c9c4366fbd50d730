"""A network as a graph of operators, for torch.export and ONNX alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NoReturn

from .._program import ConfigError


class ValueKind(Enum):
    INPUT = "input"
    PARAMETER = "parameter"
    CONSTANT = "constant"


@dataclass(frozen=True)
class Value:
    """A tensor that no node makes."""

    kind: ValueKind
    shape: tuple[int, ...]
    name: str = ""  # a parameter's, as its module has it: "layer1.0.conv1.weight"
    tokens: bool = False  # an input of integers

    @property
    def count(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass
class Node:
    """An operator of the graph."""

    op: str  # its canonical name, for every kind of file; "" = not known
    written: str  # its name in the file: "Conv", "aten.conv2d.default"
    name: str
    module: str = ""  # the module that runs it, "layer1.0.conv1"; "" = the file does not say
    block: str = ""  # the repeated module around it, "layer1.0"; "" = none
    inputs: list[str] = field(default_factory=list)  # tensors; "" = left out
    outputs: list[str] = field(default_factory=list)
    # All other arguments by canonical name: "stride" [2, 2], "p" [0.1].
    numbers: dict[str, list[float]] = field(default_factory=dict)
    shape: tuple[int, ...] = ()  # the first output's; empty = a scalar, a list, or not known
    compares: bool = False  # compares positions with each other: makes causal masks

    def number(self, key: str, absent: float, index: int = 0) -> float:
        """A number of an argument; of a list that is too short, its last number."""
        numbers = self.numbers.get(key)
        return numbers[min(index, len(numbers) - 1)] if numbers else absent

    def has_input(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] != ""


@dataclass
class Graph:
    """A node comes after the nodes whose outputs it reads."""

    source: str  # a file or a module, for errors
    title: str
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)  # operators that the graph's reader knows, as written


def problem(source: str, place: str, message: str, hint: str = "") -> str:
    """A line of an error, as the program writes it."""
    return ": ".join(part for part in (source, place, message) if part) + (f"; {hint}" if hint else "")


def place_of(node: Node) -> str:
    return f"node '{node.name}'" + (f" in {node.module}" if node.module else "")


def refuse(source: str, node: Node, message: str, hint: str = "") -> NoReturn:
    """Raises ConfigError: the model format cannot express this node."""
    raise ConfigError(problem(source, place_of(node), f"{node.written}: {message}", hint), 2)
