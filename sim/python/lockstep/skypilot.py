"""Tells SkyPilot's optimizer how long a run takes.

    task.set_time_estimator(lockstep.skypilot.estimator("scenario.yaml", platforms={"H100": "dgx-h100"}))
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from ._questions import Scenario, run


def estimator(scenario: Scenario, platforms: Optional[Mapping[str, str]] = None) -> Callable[[Any], float]:
    """Returns a function from resources to the seconds of the whole run of the scenario's first strategy.

    platforms: Lockstep's platform for each accelerator that SkyPilot may choose ("H100"). The answer for any other
    accelerator is the scenario's own platform's. The scenario must have a dataset. Raises ConfigError as run() does,
    and ValueError where nothing fits.
    """

    def seconds(resources: Any) -> float:
        overrides = {}
        for name, count in (getattr(resources, "accelerators", None) or {}).items():
            overrides["gpus"] = [int(count)]
            if platforms and name in platforms:
                overrides["platform"] = platforms[name]
        prediction = run(scenario, overrides)["predictions"][0]
        if not prediction["fits"]:
            raise ValueError("the run does not fit into memory")
        return float(prediction["total_seconds"])

    return seconds
