"""Starts the three runs that are compared: genuine PyTorch, our real run, our prediction."""

import json
import pathlib
import subprocess
import sys
import tempfile

MODES = ("ddp", "fsdp1", "fsdp2")
WARM_UP = 3  # untimed steps of our own run


def scenario_text(arguments):
    """The scenario of the export, the prediction and the training."""
    scenario = {
        "name": "PyTorch oracle",
        "model": arguments.model,
        "batch": {"per_gpu": arguments.batch},
        "precision": "fp32",
        # Both implementations on CPUs take one tensor after the other.
        "optimizer": {"name": "sgd", "momentum": 0.9, "implementation": "for-loop"},
        "platform": arguments.platform,
        "gpus": [arguments.ranks],
        "strategies": [strategy(arguments, mode) for mode in arguments.mode or MODES],
    }
    size = {"classes": arguments.classes, "sequence": arguments.sequence}
    size["image"] = [int(n) for n in arguments.image.split(",")] if arguments.image else None
    if any(size.values()):
        scenario["input"] = {key: value for key, value in size.items() if value}
    if arguments.parameter:
        pairs = (text.split("=", 1) for text in arguments.parameter)
        scenario["model_parameters"] = {name: int(value) for name, value in pairs}
    if arguments.profile:
        scenario["profile"] = str(pathlib.Path(arguments.profile).resolve())
    return json.dumps(scenario)  # JSON is YAML


def strategy(arguments, mode):
    if mode == "ddp":
        options = {}
        if arguments.bucket_cap_mb:
            # A cap of the user's own also holds for the first bucket (facts 1 and 3).
            cap = f"{arguments.bucket_cap_mb} MiB"
            options = {"bucket_size": cap, "first_bucket_size": cap}
        return {"ddp": options, "label": mode}
    options = {"version": int(mode[-1])}
    if mode == "fsdp1":
        options["use_orig_params"] = True
    if arguments.wrap_min_parameters:
        options["wrap"] = {"min_parameters": arguments.wrap_min_parameters}
    return {"fsdp": options, "label": mode}


def output_of(command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return done.stdout


def lockstep_json(arguments, verb):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "oracle.yaml")
        file.write_text(scenario_text(arguments))
        return json.loads(output_of([arguments.lockstep, *verb, str(file)]))


def train(arguments, exported, steps):
    """The observations of each rank for every point: [point][rank]."""
    import torch.multiprocessing

    import training

    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            {
                "mode": point["strategy"],
                "step": exported["steps"][point["step"]],
                "units": wrapped_modules(point),
                "ranks": point["gpus"],
                "bucket_cap_mb": arguments.bucket_cap_mb,
                "seed": arguments.seed,
                "steps": steps,
                "lr": arguments.learning_rate,
                "momentum": 0.9,
                "store": str(pathlib.Path(folder, "store")),
            }
            for point in exported["points"]
        ]
        context = torch.multiprocessing.get_context("spawn")
        results = context.SimpleQueue()
        seen = {}

        def gather():
            while not results.empty():
                rank, of_jobs = results.get()
                seen[rank] = of_jobs

        ranks = torch.multiprocessing.spawn(
            training.run_rank, (jobs, results), arguments.ranks, join=False
        )
        while not ranks.join(timeout=0.2):  # raises a rank's exception
            gather()  # a rank does not end before the pipe has taken its answer
        gather()
    return [[seen[rank][i] for rank in range(arguments.ranks)] for i in range(len(jobs))]


def wrapped_modules(point):
    """Units but the root, inner before outer ones."""
    modules = [unit["module"] for unit in point.get("units", []) if not unit["root"]]
    return sorted(modules, key=lambda path: -path.count("."))


def our_run(arguments, mode, steps):
    """The same training by lockstep-calibrate, or None: it has no fully_shard, and wraps by block."""
    if (
        not arguments.trainer
        or mode == "fsdp2"
        or (mode == "fsdp1" and arguments.wrap_min_parameters)
    ):
        return None
    command = [
        arguments.trainer,
        "train",
        "--json",
        "--strategy",
        "ddp" if mode == "ddp" else "fsdp",
    ]
    settings = {
        "--model": arguments.model,
        "--batch": arguments.batch,
        "--ranks": arguments.ranks,
        "--seed": arguments.seed,
        "--warm-up": WARM_UP,
        "--learning-rate": arguments.learning_rate,
        "--steps": steps,
        "--image": arguments.image and arguments.image.replace(",", "x"),
        "--classes": arguments.classes,
        "--sequence": arguments.sequence,
    }
    if mode == "ddp" and arguments.bucket_cap_mb:
        settings["--bucket"] = settings["--first-bucket"] = f"{arguments.bucket_cap_mb} MiB"
    for option, value in settings.items():
        command += [option, str(value)] if value else []
    for parameter in arguments.parameter:
        command += ["--set", parameter]
    result = json.loads(output_of(command))["runs"][0]
    return {
        "step_seconds": result["step_seconds"],
        "peak_bytes": result["memory"]["allocated_bytes"],
        "loss": result["each_loss"][-1],  # mean of the ranks
    }
