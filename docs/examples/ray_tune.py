"""Ray Tune asks for every GPU count and precision."""

import os

import lockstep
from ray import tune

SCENARIO = os.path.abspath("scenarios/ovi2026/vgg16.yaml")  # each trial runs in a folder of its own


def cost_of(config):
    overrides = {"gpus": [config["gpus"]], "precision": config["precision"], "strategies": ["ddp"]}
    prediction = lockstep.run(SCENARIO, overrides)["predictions"][0]
    return {"seconds": prediction["step_seconds"], "gib": prediction["memory"]["device_bytes"] / 2**30}


space = {"gpus": tune.grid_search([2, 4]), "precision": tune.grid_search(["fp32", "amp-fp16"])}
results = tune.Tuner(cost_of, param_space=space).fit()
print(results.get_best_result(metric="seconds", mode="min").config)
