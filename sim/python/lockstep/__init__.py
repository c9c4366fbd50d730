"""What distributed training of a neural network costs, asked of the program `lockstep`.

    import lockstep
    result = lockstep.run("scenario.yaml", overrides={"batch.global": 256})
    rows = lockstep.sweep("scenario.yaml", {"gpus": [1, 2, 4], "batch.global": "64..1024*2"})
    pandas.DataFrame(rows)

The program is the one that LOCKSTEP_PROGRAM names, or the `lockstep` on PATH.
"""

from ._program import ConfigError, LockstepError, LockstepWarning, Problem
from ._questions import import_config, run, sweep
from ._results import Result, Rows

__all__ = ["ConfigError", "LockstepError", "LockstepWarning", "Problem", "Result", "Rows", "import_config", "run", "sweep"]
