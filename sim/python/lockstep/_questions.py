"""`lockstep run` and `lockstep sweep`."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Union

from ._program import LockstepWarning, ask
from ._results import Result, Rows

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]


@contextlib.contextmanager
def _file_of(scenario: Scenario) -> Iterator[str]:
    if not isinstance(scenario, Mapping):
        yield os.fspath(scenario)
        return
    # The file stands alone: absolute paths name the user's models and platforms. JSON is YAML.
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        path = os.path.join(folder, "scenario.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(scenario, file, indent=1, ensure_ascii=False)
        yield path


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ends_well(code: int) -> bool:
    return code in (0, 3)  # 3: an answer, and none of its points fits into memory


def run(scenario: Scenario, overrides: Optional[Mapping[str, Any]] = None, *, jobs: Optional[int] = None) -> Result:
    """The prediction for every strategy and GPU count, as `lockstep run --json` gives it.

    scenario: a file, or its contents. overrides: fields by their dotted path, each with the value that
    replaces the file's; a list is a list. jobs: simulations at a time (default: one per core). Raises
    ConfigError for a mistake in either, LockstepError when there is no answer; warns where only some
    points have one.
    """
    words: List[str] = ["--json"]
    for path, value in (overrides or {}).items():
        words += ["--set", f"{path}={_value(value)}"]
    if jobs is not None:
        words += ["--jobs", str(jobs)]
    with _file_of(scenario) as file:
        answer = ask(["run", *words, "--", file])
    if not _ends_well(answer.code):
        warnings.warn(answer.err.strip(), LockstepWarning, stacklevel=2)
    return Result(json.loads(answer.out))


def sweep(
    scenario: Scenario,
    settings: Mapping[str, Union[str, Iterable[Any]]],
    *,
    sample: Optional[int] = None,
    seed: int = 1,
    jobs: Optional[int] = None,
) -> Rows:
    """Every combination of the settings, a flat dict each, in the order of `lockstep sweep`.

    settings: fields by their dotted path, each with its values: a list, a range, or a text as --set
    takes it ("64..1024*2", "ddp,fsdp"). sample: the number of points, drawn with `seed`. Rows without an
    answer have "kind" "refused" or "failed", and a "reason". Each setting has a key of its own,
    "set.batch.global". Raises ConfigError and LockstepError as run() does.
    """
    words: List[str] = []
    for path, values in settings.items():
        text = values if isinstance(values, str) else ",".join(_value(value) for value in values)
        words += ["--set", f"{path}={text}"]
    if sample is not None:
        words += ["--sample", str(sample), "--seed", str(seed)]
    if jobs is not None:
        words += ["--jobs", str(jobs)]
    with _file_of(scenario) as file:
        answer = ask(["sweep", *words, "--", file])
    return Rows(_flat(json.loads(line)) for line in answer.out.splitlines())


def import_config(*files: "Union[str, os.PathLike[str]]", **answers: Any) -> Dict[str, Any]:
    """The scenario of a training config or launch script, as `lockstep import-config --json` gives it.

    files: the config, and the files that it names. answers: settings that the files leave open, as the options of
    `lockstep import-config`: model, platform, gpus, sequence, micro, leave_out (a list). "scenario" holds the text of
    the scenario, "keys" the account of each key. Raises ConfigError.
    """
    words: List[str] = ["--json"]
    for name, value in answers.items():
        text = ",".join(str(each) for each in value) if isinstance(value, (list, tuple)) else str(value)
        words += ["--" + name.replace("_", "-"), text]
    return json.loads(ask(["import-config", *words, "--", *map(os.fspath, files)]).out)


def _flat(row: Mapping[str, Any]) -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for key, value in row.items():
        if key == "set":
            flat.update({f"set.{path}": chosen for path, chosen in value.items()})
        else:
            flat[key] = value
    return flat
