"""Optuna chooses the micro-batch and the bucket size of VGG-16 on 8 GPUs."""

import lockstep
import optuna


def seconds_of_a_sample(trial):
    overrides = {
        "gpus": [8],
        "strategies": ["ddp"],
        "batch": {"per_gpu": trial.suggest_categorical("per_gpu", [16, 32, 64])},
        "strategies.ddp.bucket_size": f"{trial.suggest_int('bucket_mib', 5, 100)} MiB",
    }
    prediction = lockstep.run("scenarios/ovi2026/vgg16.yaml", overrides)["predictions"][0]
    if not prediction["fits"]:
        raise optuna.TrialPruned()
    return 1 / prediction["samples_per_second"]


study = optuna.create_study(direction="minimize")
study.optimize(seconds_of_a_sample, n_trials=4)
print(study.best_params)
