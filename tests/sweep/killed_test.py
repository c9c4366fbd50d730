#!/usr/bin/env python3
"""Is a sweep that is killed at random moments and restarted complete in the end, with the same bytes as an undisturbed
sweep? The same is tested for shards, and for MPI ranks if the program has MPI.

  killed_test.py PROGRAM [--kills N] [--seed S] [--mpi]
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SCENARIO = """name: killed
model: resnet18
platform: dgx-a100-80gb
batch: {per_gpu: 16}
simulation: {steps: 8}
gpus: [1, 2]
strategies: [ddp, fsdp, parameter_server: {consistency: sync}]
"""
# About a hundred quick points; some run on SimGrid, and some are refused.
SETTINGS = ["--set", "batch.per_gpu=1..20", "--set", "gpus=1,2,9999", "--set", "simulation.seed=1,2"]


def fail(message):
    sys.exit(f"killed_test: {message}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mpi", action="store_true")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    chance = random.Random(arguments.seed)
    print(f"seed {arguments.seed}")

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("s.yaml").write_text(SCENARIO)
        sweep = [program, "sweep", "s.yaml", *SETTINGS]

        def run(*more, before=(), environment=None):
            done = subprocess.run([*before, *sweep, *more], capture_output=True, text=True,
                                  env={**os.environ, **(environment or {})})
            if done.returncode:
                fail(f"{more}: exit code {done.returncode}\n{done.stderr}")

        began = time.monotonic()
        run("-o", "whole")
        seconds = time.monotonic() - began
        whole = pathlib.Path("whole").read_bytes()
        print(f"{whole.count(10)} rows in {seconds:.2f} s")

        kills = rounds = 0
        while kills < arguments.kills:
            rounds += 1
            pathlib.Path("killed").unlink(missing_ok=True)
            while not pathlib.Path("killed").exists():
                process = subprocess.Popen([*sweep, "-j", str(chance.choice([1, 2, 3])), "-o", "killed"],
                                           stderr=subprocess.DEVNULL)
                time.sleep(chance.uniform(0, 0.6 * seconds))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                process.wait()
                part = pathlib.Path("killed.part")
                if part.exists():  # no row is computed twice
                    lines = part.read_bytes().split(b"\n")[:-1]
                    rows = [json.loads(line)["row"] for line in lines]
                    if len(rows) != len(set(rows)):
                        fail("a row was done twice")
            if pathlib.Path("killed").read_bytes() != whole:
                fail(f"after {kills} kills: other bytes")
        print(f"{kills} kills in {rounds} sweeps: the same bytes")

        for shards in (2, 3, 7):
            names = [f"shard-{k}" for k in range(shards)]
            for k, name in enumerate(names):
                run("--shard", f"{k}/{shards}", "-o", name)
            subprocess.run([program, "sweep", "--merge", *names, "-o", "merged"], check=True)
            if pathlib.Path("merged").read_bytes() != whole:
                fail(f"{shards} shards: other bytes")
            for name in names:
                pathlib.Path(name).unlink()
        print("2, 3, 7 shards: the same bytes")

        if arguments.mpi:
            for ranks in (1, 2, 3, 5):
                run("-o", "ranks", before=["mpirun", "--oversubscribe", "-np", str(ranks)],
                    environment={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
                if pathlib.Path("ranks").read_bytes() != whole:
                    fail(f"{ranks} ranks: other bytes")
                pathlib.Path("ranks").unlink()
            print("1, 2, 3, 5 ranks: the same bytes")


main()
