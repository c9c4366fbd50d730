#!/usr/bin/env python3
"""Do the Slurm and Kubernetes examples give the whole sweep? Their tasks run here one after the other, with the
variables that the cluster would set.

  cluster_examples_test.py PROGRAM
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples"
SCENARIO = """name: small
model: resnet18
platform: dgx-a100-80gb-hdr4
batch: {per_gpu: 16}
simulation: {steps: 8}
strategies: [ddp]
"""


def slurm(program):
    script = EXAMPLES / "sweep.sbatch"
    first, last = map(int, re.search(r"--array=(\d+)-(\d+)", script.read_text()).groups())
    for task in range(first, last + 1):
        variables = {"LOCKSTEP": program, "SLURM_ARRAY_TASK_ID": str(task), "SLURM_CPUS_PER_TASK": "2",
                     "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
        subprocess.run(["sh", script, "my.yaml"], env={**os.environ, **variables}, check=True)


def kubernetes(program):
    job = yaml.safe_load((EXAMPLES / "sweep-job.yaml").read_text())["spec"]
    assert job["completionMode"] == "Indexed"
    command = job["template"]["spec"]["containers"][0]["command"]
    for index in range(job["completions"]):
        words = [word.replace("$(JOB_COMPLETION_INDEX)", str(index)) for word in command]
        subprocess.run([program, *words[1:]], check=True)


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("my.yaml").write_text(SCENARIO)
        subprocess.run([program, "sweep", "my.yaml", "--set", "gpus=1,2,4..64*2", "--set",
                        "batch.per_gpu=8..128*2", "-o", "whole.jsonl"], check=True)
        whole = pathlib.Path("whole.jsonl").read_bytes()
        for cluster in (slurm, kubernetes):
            cluster(program)
            shards = sorted(map(str, pathlib.Path(".").glob("shard-*.jsonl")))
            subprocess.run([program, "sweep", "--merge", *shards, "-o", "merged.jsonl"], check=True)
            if pathlib.Path("merged.jsonl").read_bytes() != whole:
                sys.exit(f"{cluster.__name__}: other bytes than the whole sweep")
            for shard in shards:
                os.unlink(shard)


main()
