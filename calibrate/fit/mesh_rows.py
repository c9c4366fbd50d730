#!/usr/bin/env python3
"""Predicts measured steps of meshes and prints the errors by source.

    calibrate/fit/mesh_rows.py --program build/release/sim/cli/lockstep
    calibrate/fit/mesh_rows.py --source nanotron --by tp --rows
    calibrate/fit/mesh_rows.py --source vtrain --row 3 > row.yaml

platforms/measurements/meshes holds the rows; mesh_nanotron.py, mesh_megatron.py and mesh_fast.py turn
each row into a scenario. Nothing is fitted to them.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import mesh_fast
import mesh_megatron
import mesh_nanotron

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {**mesh_nanotron.SOURCES, **mesh_megatron.SOURCES, **mesh_fast.SOURCES}
GIB = 2.0**30


def options():
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/sim/cli/lockstep"),
                        help="the lockstep program")
    parser.add_argument("--source", action="append", choices=sorted(SOURCES),
                        help="only this source; may be repeated")
    parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE",
                        help="only rows with this field")
    parser.add_argument("--by", metavar="FIELD",
                        help="group by tp, pp, dp, cp, nodes, micro, micro_batches, model or mesh")
    parser.add_argument("--row", type=int, help="print the scenario of one row and stop")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--every", type=int, default=1, help="only every so many rows")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one row")
    parser.add_argument("--save", help="write predictions and rows to this JSON file")
    return parser.parse_args()


def predicted(program, row, limit):
    """The program's prediction of a row, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "row.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(row.scenario, file)
        environment = {**os.environ}
        environment.setdefault("LOCKSTEP_DATA", str(ROOT))
        try:
            done = subprocess.run([program, "run", path, "--json"], capture_output=True, text=True,
                                  timeout=limit, check=False, env=environment)
        except subprocess.TimeoutExpired:
            return None, f"longer than {limit:g} s"
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        lines = done.stderr.replace(path, "row").strip().split("\n")
        return None, lines[0] or f"exit {done.returncode}"
    if answer.get("predictions"):
        return answer["predictions"][0], ""
    return None, answer["failures"][0]["reason"] if answer.get("failures") else done.stderr.strip()


def peak_of(prediction, row):
    """The predicted peak of the rank whose memory was measured, in bytes."""
    stages = prediction.get("stages") or []
    if stages and row.stage is not None:
        return stages[row.stage]["memory"][row.memory_kind]
    return prediction["memory"][row.memory_kind]


def judged(program, row, limit):
    """A row's errors: predicted over measured, less 1."""
    begin = time.monotonic()
    prediction, reason = predicted(program, row, limit)
    result = {"wall_s": time.monotonic() - begin,
              "source": row.source, "number": row.number, "fields": row.fields, "note": row.note,
              "reason": reason, "measured_s": row.step_seconds, "measured_bytes": row.peak_bytes,
              "should_fit": row.fits}
    if prediction is None:
        return result
    result.update(step_s=prediction["step_seconds"], bytes=peak_of(prediction, row),
                  fits=prediction["fits"], split=prediction["split_seconds"],
                  stages=prediction.get("stages"), memory=prediction["memory"])
    if row.step_seconds > 0:
        result["step_error"] = result["step_s"] / row.step_seconds - 1
    if row.peak_bytes > 0:
        result["memory_error"] = result["bytes"] / row.peak_bytes - 1
    return result


def quantile(values, share):
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def summary(errors):
    """Median, 90th percentile and worst of the absolute errors, and the signed median."""
    if not errors:
        return f"{'-':>8}{'-':>8}{'-':>8}{'-':>8}"
    sizes = [abs(error) for error in errors]
    signed = statistics.median(errors)
    return (f"{statistics.median(sizes):8.1%}{quantile(sizes, 0.9):8.1%}{max(sizes):8.1%}"
            f"{signed:+8.1%}")


def print_summary(results, field):
    """Prints one line for each source, or for each value of a field."""
    groups = {}
    for result in results:
        key = result["source"] if field is None else result["fields"].get(field, "-")
        groups.setdefault(key, []).append(result)
    head = f"{field or 'source':<28}{'rows':>5}{'none':>5}"
    print(f"{'':38}{'step time, absolute error':^32}  {'peak memory, absolute error':^32}")
    titles = f"{'median':>8}{'9 in 10':>8}{'worst':>8}{'signed':>8}"
    print(f"{head}{titles}  {titles}  fits as measured")
    for key in sorted(groups, key=lambda key: (isinstance(key, str), key)):
        group = groups[key]
        none = sum("step_s" not in result for result in group)
        step = [result["step_error"] for result in group if "step_error" in result]
        memory = [result["memory_error"] for result in group if "memory_error" in result]
        known = [result for result in group if "fits" in result]
        right = sum(result["fits"] == result["should_fit"] for result in known)
        print(f"{str(key):<28}{len(group):>5}{none:>5}{summary(step)}  {summary(memory)}"
              f"  {right} of {len(known)}")


def row_text(result):
    """A row with its errors and the predicted parts of its step."""
    fields = " ".join(f"{key} {value}" for key, value in result["fields"].items())
    line = f"{result['source']} {result['number']}: {fields}"
    if "step_s" not in result:
        return f"{line} | none: {result['reason']}"
    if "step_error" in result:
        line += f" | step {result['measured_s']:.4g} s {result['step_error']:+.1%}"
    if "memory_error" in result:
        line += f" | peak {result['measured_bytes'] / GIB:.2f} GiB {result['memory_error']:+.1%}"
    parts = " ".join(f"{name} {seconds / result['step_s']:.0%}"
                     for name, seconds in result["split"].items()
                     if seconds > 0.005 * result["step_s"])
    return (f"{line} | {'' if result['fits'] else 'does not fit '}{parts}"
            f"{' | ' + result['note'] if result['note'] else ''}")


def main():
    """Predicts, compares and prints."""
    chosen = options()
    wanted = [pair.split("=", 1) for pair in chosen.where]
    rows = [row for name in chosen.source or SOURCES for row in SOURCES[name]()
            if all(str(row.fields.get(field)) == value for field, value in wanted)]
    if chosen.row is not None:
        for row in rows:
            if row.number == chosen.row:
                print(json.dumps(row.scenario, indent=2))
        return 0
    rows = rows[::chosen.every]
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        results = []
        for result in pool.map(lambda row: judged(chosen.program, row, chosen.limit), rows):
            results.append(result)
            if chosen.rows:
                print(row_text(result), flush=True)
    print_summary(results, chosen.by)
    reasons = {}
    for result in results:
        if "step_s" not in result:
            reasons.setdefault(result["reason"], []).append(result)
    for reason, group in reasons.items():
        first = f"{group[0]['source']} {group[0]['number']}"
        print(f"no prediction, {len(group)} rows, first {first}: {reason}")
    if chosen.save:
        with open(chosen.save, "w", encoding="utf-8") as file:
            json.dump(results, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
