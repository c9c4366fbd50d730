"""Answers: plain dicts and lists that a notebook shows as tables."""

from __future__ import annotations

import html
from typing import Any, Dict, Iterable, List, Mapping, Tuple

_SHOWN = (
    "kind", "strategy", "gpus", "global_batch", "step_seconds", "step_s", "samples_per_second",
    "samples_per_s", "mfu", "memory.device_bytes", "device_bytes", "fits", "dollars", "reason",
)  # fmt: skip
_MOST_SHOWN = 60


def _flat(value: Mapping[str, Any], before: str = "") -> Iterable[Tuple[str, Any]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{before}{key}.")
        else:
            yield before + key, inner


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def _table(rows: List[Dict[str, Any]]) -> str:
    keys = {key: None for row in rows for key in row}
    chosen = [key for key in keys if key.startswith(("set.", "chosen."))]
    columns = chosen + [key for key in _SHOWN if any(row.get(key) is not None for row in rows)]
    head = "".join(f"<th>{html.escape(key)}</th>" for key in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(key))}</td>" for key in columns) + "</tr>" for row in rows[:_MOST_SHOWN]
    )
    more = f"<p>{len(rows) - _MOST_SHOWN} more rows</p>" if len(rows) > _MOST_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class Result(Dict[str, Any]):
    """The document of `lockstep run --json`, as docs/schema/result.schema.json describes it. A scenario with
    alternatives gives {"alternatives": [{"chosen": ..., "result": document}]}."""

    def rows(self) -> "Rows":
        """A flat dict for each prediction: "step_seconds", "memory.device_bytes"; and the choice, "chosen.platform",
        where the scenario lists alternatives."""
        if "alternatives" not in self:
            return Rows(dict(_flat(one)) for one in self["predictions"])
        rows = Rows()
        for alternative in self["alternatives"]:
            chosen = {f"chosen.{choice['field']}": choice["value"] for choice in alternative["chosen"]}
            rows += [{**chosen, **dict(_flat(one))} for one in alternative["result"]["predictions"]]
        return rows

    def _repr_html_(self) -> str:
        title = f"<p><b>{html.escape(self['scenario'])}</b></p>" if "scenario" in self else ""
        return title + _table(self.rows())


class Rows(List[Dict[str, Any]]):
    """Flat dicts whose keys name the same units as the program's CSV: pandas.DataFrame(rows)."""

    def _repr_html_(self) -> str:
        return _table(self)
