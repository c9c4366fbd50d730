"""How long a run takes, for SkyPilot's optimizer.

    task.set_time_estimator(lockstep.skypilot.estimator("scenario.yaml", platforms={"H100": "dgx-h100"}))
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from ._questions import Scenario, run


def estimator(scenario: Scenario, platforms: Optional[Mapping[str, str]] = None) -> Callable[[Any], float]:
    """Seconds of the whole run of the scenario's first strategy on given resources.

    platforms: Lockstep's platform for each accelerator that SkyPilot may choose ("H100"); other accelerators are
    answered for the scenario's own platform. The scenario must have a dataset. Raises ConfigError as run() does,
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
