"""Asks the program `lockstep` for the cost of distributed training of a neural network.

    import lockstep
    result = lockstep.run("scenario.yaml", overrides={"batch.global": 256})
    rows = lockstep.sweep("scenario.yaml", {"gpus": [1, 2, 4], "batch.global": "64..1024*2"})
    pandas.DataFrame(rows)

LOCKSTEP_PROGRAM names the program; without it, the package runs the `lockstep` on PATH.
"""

from ._program import ConfigError, LockstepError, LockstepWarning, Problem
from ._questions import import_config, run, sweep
from ._results import Result, Rows

__all__ = ["ConfigError", "LockstepError", "LockstepWarning", "Problem", "Result", "Rows", "import_config", "run", "sweep"]
