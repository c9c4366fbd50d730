#!/usr/bin/env python3
"""Our peak memory of meshes against genuine PyTorch's, torchtitan's and Megatron-core's, rank by rank.

    compare.py --lockstep PROGRAM [--python PYTHON] [--record] [--only TEXT]

The genuine figures come from genuine.jsonl beside this script. With --python they are measured: PYTHON has PyTorch's
CUDA wheel, torchtitan, megatron-core and nanotron, and runs memory.py, titan.py, mcore.py and nano.py on a CUDA runtime that computes
nothing (../gpu/cuda_stub.c, built with gcc). --record writes the measured figures to the file. The exit code is 1 where
a limit below is broken; docs/oracle.md gives the reason of each limit.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import scenarios

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))
from stub import stub_environment  # noqa: E402

GENUINE = HERE / "genuine.jsonl"
FARTHEST = 0.02  # the largest error of a rank


def predicted(program, entry, folder):
    """Returns our allocated bytes at the peak, by stage of the pipeline."""
    path = folder / "case.yaml"
    path.write_text(json.dumps(scenarios.scenario_of(entry["script"], entry["job"], str(HERE / "megatron.yaml"))))
    done = subprocess.run([program, "run", str(path), "--json"], capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    prediction = json.loads(done.stdout)["predictions"][0]
    return [stage["memory"]["allocated_bytes"] for stage in prediction.get("stages") or [prediction]]


def measured(python, entries):
    """The entries with figures from the packages of this Python; a failed job prints its reason and is left out."""
    result = []
    for script in scenarios.OF:
        jobs = [entry for entry in entries if entry["script"] == script]
        if not jobs:
            continue
        # torchtitan chooses the kernels of a Hopper.
        environment = stub_environment(python, "done", **({"STUB_CC": "9"} if script == "titan" else {}))
        lines = "\n".join(json.dumps({**entry["job"], "ranks": entry["ranks"]}) for entry in jobs)
        done = subprocess.run([python, str(HERE / f"{script}.py")], input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=environment)
        answers = iter(json.loads(line) for line in done.stdout.splitlines())
        for entry in jobs:
            figures = [next(answers) for _ in entry["ranks"]]
            errors = [answer["error"] for answer in figures if "error" in answer]
            if errors:
                print(f"{name_of(entry)}: {errors[0]}", file=sys.stderr)
                continue
            result.append({**entry, "allocated": [answer["allocated"] for answer in figures]})
    return result


def name_of(entry):
    return f"{entry['script']:6} " + json.dumps(entry["job"]).replace('"', "").strip("{}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", required=True)
    parser.add_argument("--python")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", help="jobs with this text")
    options = parser.parse_args()
    recorded = [json.loads(line) for line in GENUINE.read_text().splitlines()]
    chosen = [entry for entry in recorded if options.only in name_of(entry)]
    if not chosen:
        sys.exit(f"no job has the text {options.only}")
    known = chosen
    if options.python:
        known = measured(options.python, chosen)
        moved = sum(entry not in recorded for entry in known)
        print(f"{len(known)} of {len(chosen)} jobs measured again, {moved} with figures other than those recorded")
        if options.record:
            new = {name_of(entry): entry for entry in known}
            GENUINE.write_text("".join(json.dumps(new.get(name_of(entry), entry)) + "\n" for entry in recorded))
    print(f"{'genuine':>10} {'ours':>10} {'error':>7}  rank  job (MB)")
    errors, far = {}, len(known) != len(chosen)
    with tempfile.TemporaryDirectory() as name:
        for entry in known:
            ours = predicted(options.lockstep, entry, pathlib.Path(name))
            if len(ours) != len(entry["ranks"]):
                raise RuntimeError(f"{name_of(entry)}: {len(ours)} stages, {len(entry['ranks'])} ranks")
            for rank, genuine, predicted_bytes in zip(entry["ranks"], entry["allocated"], ours):
                error = predicted_bytes / genuine - 1
                print(f"{genuine / 1e6:10.1f} {predicted_bytes / 1e6:10.1f} {error:+7.1%}  {rank:4}  {name_of(entry)}")
                errors.setdefault(entry["script"], []).append(abs(error))
    for kind, sizes in errors.items():
        print(f"{kind:12} {len(sizes):3} ranks: within 2 % in {sum(size <= FARTHEST for size in sizes) / len(sizes):.1%}, "
              f"median {sorted(sizes)[len(sizes) // 2]:.2%}, worst {max(sizes):.1%}")
        far |= max(sizes) > FARTHEST
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
