#!/usr/bin/env python3
"""What genuine PyTorch does on this machine's CPU, for the models that Lockstep describes.

Trains the network of `lockstep export --layers` with DistributedDataParallel, FSDP1 or fully_shard
on a few processes through Gloo and prints JSON: step times, collectives in order, memory. Or, with
--compare, a table of PyTorch, our real run and our prediction. Or, with --check, whether schedule,
parameters and (given the trainer) losses agree; exit code 1 when they do not. See docs/oracle.md.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODES = ("ddp", "fsdp1", "fsdp2")
UNTESTABLE = 77  # CTest's SKIP_RETURN_CODE
# glibc keeps freed memory, as calibrate/launch/environment.cpp sets it for our own runs; one thread.
ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
    "OMP_NUM_THREADS": "1",
    "KINETO_LOG_LEVEL": "99",  # the profiler of a CUDA build complains where there is no GPU
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lockstep", required=True, help="the simulator's program")
    parser.add_argument("--trainer", help="lockstep-calibrate, for --compare and --check")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=8, help="samples of one rank")
    parser.add_argument("--image", help="channels,height,width")
    parser.add_argument("--sequence", type=int, help="tokens of a sample")
    parser.add_argument("--classes", type=int)
    parser.add_argument(
        "--parameter", action="append", default=[], help="of the model: layers=2; repeatable"
    )
    parser.add_argument("--mode", choices=MODES, action="append", help="repeatable; default: all")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bucket-cap-mb", type=float, help="ddp; default: PyTorch's own")
    parser.add_argument(
        "--wrap-min-parameters", type=int, help="fsdp: units by size instead of blocks"
    )
    parser.add_argument("--platform", default="cpu-loopback-x2")
    parser.add_argument("--profile", help="folder of a measured profile for the prediction")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--seed", type=int, default=1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compare", action="store_true")
    what.add_argument("--check", action="store_true")
    return parser.parse_args()


def scenario_text(arguments):
    """One scenario for all three: the export, the prediction, and what is trained."""
    scenario = {
        "name": "PyTorch oracle",
        "model": arguments.model,
        "batch": {"per_gpu": arguments.batch},
        "precision": "fp32",
        "optimizer": {"name": "sgd", "momentum": 0.9},
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
            # A cap of the user's own holds for the first bucket, too (facts 1 and 3).
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
    """What each rank saw of every point: [point][rank]."""
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
                "lr": 0.01,
                "momentum": 0.9,
                "store": str(pathlib.Path(folder, "store")),
            }
            for point in exported["points"]
        ]
        context = torch.multiprocessing.get_context("spawn")
        results = context.SimpleQueue()
        seen = {}
        ranks = torch.multiprocessing.spawn(
            training.run_rank, (jobs, results), arguments.ranks, join=False
        )
        while not ranks.join(timeout=0.2):  # raises what a rank raised
            while not results.empty():
                rank, of_jobs = results.get()
                seen[rank] = of_jobs
    return [[seen[rank][i] for rank in range(arguments.ranks)] for i in range(len(jobs))]


def wrapped_modules(point):
    """Units but the root, inner before outer ones."""
    modules = [unit["module"] for unit in point.get("units", []) if not unit["root"]]
    return sorted(modules, key=lambda path: -path.count("."))


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"median": middle, "iqr": high - low}


def by_kind(calls):
    totals = {}
    for call in calls:
        total = totals.setdefault(call["collective"], {"count": 0, "bytes": 0})
        total["count"] += 1
        total["bytes"] += call["bytes"]
    return totals


def summary(point, step, seen):
    import torch

    first = seen[0]
    return {
        "strategy": point["strategy"],
        "model": step["model"],
        "samples": step["samples"],
        "ranks": point["gpus"],
        "torch": torch.__version__,
        "step_seconds": spread(first["step_seconds"]),
        "phase_seconds": {name: spread(times) for name, times in first["phase_seconds"].items()},
        "parameters": first["parameters"],
        "losses": [rank["losses"] for rank in seen],
        "memory_bytes": first["memory_bytes"],
        "collectives": by_kind(first["collectives"]),
        "order": first["collectives"],
    }


def expected_collectives(point, buffer_types):
    """What the simulator's schedule says a steady step launches, in order (docs/strategies.md)."""
    if point["kind"] == "ddp":
        return [("broadcast", None)] * buffer_types + [
            ("all_reduce", size) for size in point["bucket_bytes"]
        ]
    units = point["units"]
    gathers = [("all_gather", unit["gathered_bytes"]) for unit in units]
    reductions = [("reduce_scatter", unit["reduced_bytes"]) for unit in units]
    backward, gathered = [], {i for i, unit in enumerate(units) if unit["root"]}
    order = [i for i, unit in enumerate(units) if not unit["root"]][::-1]
    order += [i for i, unit in enumerate(units) if unit["root"]]
    for place, i in enumerate(order):
        for j in order[place : place + 2]:  # its own, and one ahead before it computes (36, 51)
            if j not in gathered:
                gathered.add(j)
                backward.append(gathers[j])
        backward.append(reductions[i])
    return gathers + backward


def draws(layer):
    return layer["kind"] in ("dropout", "stochastic_depth") or layer["attributes"].get("dropout", 0)


def check(arguments, exported):
    failures = []
    losses = {}
    for point, seen in zip(exported["points"], train(arguments, exported, steps=2)):
        step = exported["steps"][point["step"]]
        name = f"{point['strategy']} {step['model']}"
        if seen[0]["parameters"] != step["parameter_count"]:
            failures.append(
                f"{name}: {seen[0]['parameters']} parameters, ours {step['parameter_count']}"
            )
        expected = expected_collectives(point, seen[0]["buffer_types"])
        found = [(call["collective"], call["bytes"]) for call in seen[0]["collectives"]]
        print(f"{name}: {len(found)} collectives: {by_kind(seen[0]['collectives'])}")
        if [kind for kind, _ in expected] != [kind for kind, _ in found] or any(
            size not in (None, other) for (_, size), (_, other) in zip(expected, found)
        ):
            failures.append(
                f"{name}: collectives differ\n  PyTorch  {found}\n  expected {expected}"
            )
        losses[name] = [loss for rank in seen for loss in rank["losses"]]
    # The same training however it is sharded: nothing of the network is lost in its units.
    if not any(draws(layer) for step in exported["steps"] for layer in step["layers"]):
        reference = next(iter(losses.values()))
        for name, values in losses.items():
            apart = max(abs(a - b) / abs(a) for a, b in zip(reference, values))
            print(f"{name}: first loss {values[0]:.6f}, losses apart by {apart:.1e}")
            if apart > 1e-3:
                failures.append(f"{name}: losses {values} instead of {reference}")
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def compare(arguments, exported):
    predicted = {
        p["strategy"]: p for p in lockstep_json(arguments, ["run", "--json"])["predictions"]
    }
    rows = [
        (
            "strategy",
            "what",
            "PyTorch",
            "our run",
            "prediction",
            "ours/PyTorch",
            "prediction/PyTorch",
        )
    ]

    def row(label, what, scale, unit, genuine, ours, prediction):
        def text(value):
            return "-" if value is None else f"{value / scale:.1f} {unit}"

        def ratio(value):
            return "-" if value is None else f"{value / genuine:.3f}"

        rows.append(
            (
                label,
                what,
                text(genuine),
                text(ours),
                text(prediction),
                ratio(ours),
                ratio(prediction),
            )
        )

    for point, seen in zip(exported["points"], train(arguments, exported, arguments.steps)):
        label = point["strategy"]
        genuine = summary(point, exported["steps"][point["step"]], seen)
        ours = our_run(arguments, label) if arguments.trainer else {}
        prediction = predicted[label]
        row(
            label,
            "step",
            1e-3,
            "ms",
            genuine["step_seconds"]["median"],
            ours.get("step_seconds"),
            prediction["step_seconds"],
        )
        row(
            label,
            "peak tensor memory",
            1e6,
            "MB",
            genuine["memory_bytes"]["peak"],
            ours.get("peak_bytes"),
            prediction["memory"]["allocated_bytes"],
        )
    widths = [max(len(line[i]) for line in rows) for i in range(len(rows[0]))]
    for line in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    return 0


def main():
    arguments = parse_arguments()
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"no PyTorch in {sys.executable}: {error}", file=sys.stderr)
        return UNTESTABLE
    os.environ.update(ENVIRONMENT)  # the ranks are new processes, which read it at their start
    exported = lockstep_json(arguments, ["export", "--layers"])
    if arguments.check:
        return check(arguments, exported)
    if arguments.compare:
        return compare(arguments, exported)
    results = zip(exported["points"], train(arguments, exported, arguments.steps))
    print(
        json.dumps(
            [summary(p, exported["steps"][p["step"]], seen) for p, seen in results], indent=1
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
