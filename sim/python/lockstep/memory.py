"""Predicted memory as a snapshot that opens in PyTorch's viewer (pytorch.org/memory_viz)."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any, Dict, List, Mapping, Optional

from ._program import ask
from ._questions import Scenario, _file_of


def _point(document: Mapping[str, Any], strategy: Optional[str], gpus: Optional[int]) -> Mapping[str, Any]:
    fitting = [
        point
        for point in document["points"]
        if strategy in (None, point["strategy"]) and gpus in (None, point["gpus"])
    ]
    if len(fitting) != 1:
        named = ", ".join(f"{point['strategy']} on {point['gpus']}" for point in document["points"])
        raise ValueError(f"a snapshot is of one point, and {len(fitting)} fit: strategy= and gpus= of {named}")
    return fitting[0]


class _Blocks:
    """Allocations and frees that give the account of each moment. A kind of memory is a stack of blocks."""

    def __init__(self) -> None:
        self.events: List[Dict[str, Any]] = []
        self._stacks: Dict[str, List[Dict[str, Any]]] = {}
        self._next = 1 << 40

    def _event(self, action: str, block: Mapping[str, Any]) -> None:
        event = {"action": action, "stream": 0, "time_us": len(self.events), **block}
        self.events.append(event)

    def _allocate(self, kind: str, size: int, moment: str) -> None:
        frames = [{"name": kind, "filename": moment, "line": 0}]
        block = {"addr": self._next, "size": size, "frames": frames}
        self._next += size
        self._stacks.setdefault(kind, []).append(block)
        self._event("alloc", block)

    def _free(self, kind: str, size: int, moment: str) -> None:
        while size > 0:
            block = self._stacks[kind].pop()
            self._event("free_requested", block)
            self._event("free_completed", block)
            if block["size"] > size:
                self._allocate(kind, block["size"] - size, moment)
            size -= block["size"]

    def reach(self, account: Mapping[str, int], moment: str) -> None:
        """Frees first, so that no sum lies above the two accounts."""
        live = {kind: sum(block["size"] for block in blocks) for kind, blocks in self._stacks.items()}
        kinds = sorted(set(live) | set(account))
        change = {kind: account.get(kind, 0) - live.get(kind, 0) for kind in kinds}
        for kind in kinds:
            if change[kind] < 0:
                self._free(kind, -change[kind], moment)
        for kind in kinds:
            if change[kind] > 0:
                self._allocate(kind, change[kind], moment)


def snapshot(scenario: Scenario, *, strategy: Optional[str] = None, gpus: Optional[int] = None) -> Dict[str, Any]:
    """The snapshot of one point, as torch.cuda.memory._snapshot() gives one.

    Blocks are the account's changes by kind of memory, not single tensors. Their frames name the kind and the
    moment, "backward of layer4.2.conv3". The highest sum is the predicted peak of allocated memory.
    """
    with _file_of(scenario) as file:
        document = json.loads(ask(["export", "--memory", "--", file]).out)
    blocks = _Blocks()
    for moment in _point(document, strategy, gpus)["moments"]:
        text = f"{moment['moment']}, micro-batch {moment['micro_batch']}"
        blocks.reach(moment["highest"], text)
        blocks.reach(moment["after"], text)
    return {"segments": [], "device_traces": [blocks.events], "allocator_settings": {}, "external_annotations": []}


def write_snapshot(scenario: Scenario, path: "os.PathLike[str] | str", **point: Any) -> None:
    """Writes snapshot() to a file that pytorch.org/memory_viz opens."""
    with open(path, "wb") as file:
        pickle.dump(snapshot(scenario, **point), file)
