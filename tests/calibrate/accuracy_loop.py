#!/usr/bin/env python3
"""Does a prediction meet a real training of the same job, in staleness and accuracy?

accuracy_loop.py LOCKSTEP CALIBRATE [SEEDS]: trains scenarios/accuracy/as_really_trained.yaml for real with SEEDS seeds
(default 5), predicts it, and prints both as a Markdown table. It needs two cores and fashion-mnist. Exit code 1 if the
real mean accuracy lies outside the prediction's interval, widened by the spread of the real runs, or if the mean
staleness differs by more than 10 %.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/accuracy/as_really_trained.yaml"
JOB = ("--model lenet5 --ranks 2 --batch 32 --data fashion-mnist --warm-up 4 --steps 296 --slow-rank 1:3 "
       "--learning-rate 0.01 --momentum 0.9 --json").split()
MORE = {"fedavg": ["--participants", "50%"]}


def output(words, **environment):
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def interval90(values):
    """The 90 % interval of the mean, by Student's t."""
    t = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02, 7: 1.94, 8: 1.89}[len(values)]
    return t * statistics.stdev(values) / len(values) ** 0.5


def main():
    lockstep, calibrate = map(os.path.abspath, sys.argv[1:3])
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    predicted = output([lockstep, "run", SCENARIO, "--json"], LOCKSTEP_CALIBRATE=calibrate, LOCKSTEP_DATA=str(ROOT))
    rows, wrong = [], []
    for prediction in predicted["predictions"]:
        strategy = prediction["strategy"]
        runs = [output([calibrate, "train", "--strategy", strategy, "--seed", str(seed), *JOB, *MORE.get(strategy, [])],
                       LOCKSTEP_DATA=str(ROOT))["runs"][0] for seed in range(1, seeds + 1)]
        accuracies = [run["test_accuracy"] for run in runs]
        mean, spread = statistics.mean(accuracies), interval90(accuracies)
        none = {"mean": 0, "p99": 0}  # for ranks without a server
        real = [run.get("staleness", none) for run in runs]
        stale = statistics.mean(one["mean"] for one in real)
        low, high = prediction["accuracy"]["interval"]
        sim = prediction.get("staleness", none)
        rows.append(f"| {strategy} | {sim['mean']:.2f} | {stale:.2f} | {sim['p99']:.0f} | "
                    f"{max(one['p99'] for one in real):.0f} | {100 * low:.1f} .. {100 * high:.1f} % | "
                    f"{100 * mean:.1f} +- {100 * spread:.1f} % |")
        if not low - spread <= mean <= high + spread:
            wrong.append(f"{strategy}: accuracy")
        if abs(stale - sim["mean"]) > 0.1 * max(sim["mean"], 0.1):
            wrong.append(f"{strategy}: staleness")
    print("| strategy | mean staleness, predicted | real | 99 %, predicted | real | accuracy, predicted | real |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))
    for what in wrong:
        print(f"off: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
