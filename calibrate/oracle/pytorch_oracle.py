#!/usr/bin/env python3
"""Genuine PyTorch on this machine's CPU, for the models that Lockstep describes.

Trains the network of `lockstep export --layers` with DistributedDataParallel, FSDP1 or fully_shard
on a few processes through Gloo and prints JSON: step times, collectives in order, memory. --compare
prints a table of PyTorch, our real run and our prediction. --check tells whether schedule,
parameters and (given the trainer) losses agree; its exit code is 1 when they do not. See
docs/oracle.md.
"""

import argparse
import json
import os
import statistics
import sys

import checks
import runs

UNTESTABLE = 77  # CTest's SKIP_RETURN_CODE
# glibc keeps freed memory, as calibrate/launch/environment.cpp makes it in our own runs; one
# thread.
ENVIRONMENT = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "67108864",
    "OMP_NUM_THREADS": "1",
    "KINETO_LOG_LEVEL": "99",  # silences the profiler of a CUDA build where there is no GPU
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
    parser.add_argument(
        "--mode", choices=runs.MODES, action="append", help="repeatable; default: all"
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bucket-cap-mb", type=float, help="ddp; default: PyTorch's own")
    parser.add_argument(
        "--wrap-min-parameters", type=int, help="fsdp: units by size instead of blocks"
    )
    parser.add_argument("--platform", default="cpu-loopback-x2")
    parser.add_argument("--profile", help="folder of a measured profile for the prediction")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.01, help="of SGD")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compare", action="store_true")
    what.add_argument("--check", action="store_true")
    return parser.parse_args()


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return {"median": middle, "iqr": high - low}


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
        "collectives": checks.by_kind(first["collectives"]),
        "order": first["collectives"],
    }


def compare(arguments, exported):
    predicted = {
        p["strategy"]: p for p in runs.lockstep_json(arguments, ["run", "--json"])["predictions"]
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

    for point, seen in zip(exported["points"], runs.train(arguments, exported, arguments.steps)):
        label = point["strategy"]
        genuine = summary(point, exported["steps"][point["step"]], seen)
        ours = runs.our_run(arguments, label, arguments.steps) or {}
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
    os.environ.update(ENVIRONMENT)  # the ranks are new processes, and read it at their start
    exported = runs.lockstep_json(arguments, ["export", "--layers"])
    if arguments.check:
        return checks.check(arguments, exported)
    if arguments.compare:
        return compare(arguments, exported)
    results = zip(exported["points"], runs.train(arguments, exported, arguments.steps))
    print(
        json.dumps(
            [summary(p, exported["steps"][p["step"]], seen) for p, seen in results], indent=1
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
