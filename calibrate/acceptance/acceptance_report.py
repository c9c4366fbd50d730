#!/usr/bin/env python3
"""Writes the report of gpu_acceptance.sh as Markdown: predictions beside real training.

usage: acceptance_report.py FOLDER   (holding real/*.json, predicted/*.json, profile/, and what
gpu_acceptance.sh notes: plan, done/, failed, cut, logs/, machine; whatever is there is reported)

real/NAME.json comes from `lockstep-calibrate train --json`, predicted/NAME.json from
`lockstep run --json`; NAME starts with what it is for:
  step-KIND-MODEL-PRECISION-BATCH   one rank; KIND is calibrated, between, beyond or other
  ranks-STRATEGY-MODEL-RANKS        several ranks
"""

import json
import statistics
import sys
from pathlib import Path

KINDS = {
    "calibrated": "batch was calibrated",
    "between": "batch between two calibrated ones",
    "beyond": "batch beyond the calibrated ones",
    "other": "model was not calibrated",
}
# Of issue and docs: step time 5 % median, allocated 2 %, reserved 5 %, of what was not calibrated.
BARS = {"step": 0.05, "allocated": 0.02, "reserved": 0.05}


def first_prediction(path):
    try:
        document = json.loads(path.read_text())
        return (document.get("runs") or document["predictions"])[0]
    except (OSError, ValueError, KeyError, IndexError):
        return None


def figures(prediction):
    memory = prediction.get("memory", {})
    return {
        "step": prediction.get("step_seconds") or None,
        "allocated": memory.get("allocated_bytes") or None,
        "reserved": memory.get("reserved_bytes") or None,
    }


def error(predicted, real):
    if not predicted or not real:
        return None
    return predicted / real - 1


def percent(value):
    return "-" if value is None else f"{100 * value:+.1f} %"


def seconds(value):
    return "-" if value is None else f"{1e3 * value:.3f} ms"


def mebibytes(value):
    return "-" if value is None else f"{value / 2**20:.0f} MiB"


def provenance(prediction):
    shares = prediction.get("provenance", {})
    parts = [f"{100 * shares[k]:.0f} % {k}" for k in ("measured", "interpolated", "modelled")
             if shares.get(k, 0) >= 0.005]
    return ", ".join(parts) or "-"


def median_size(errors):
    errors = [abs(e) for e in errors if e is not None]
    return statistics.median(errors) if errors else None


def words(path):
    try:
        return path.read_text().split()
    except OSError:
        return []


def single_rank(folder, lines):
    lines += ["## One rank: step time and peak memory", ""]
    judged = {name: [] for name in BARS}
    on_cpu = folder_device(folder).startswith("cpu")
    for kind, meaning in KINDS.items():
        names = sorted(p.stem for p in (folder / "real").glob(f"step-{kind}-*.json"))
        if not names:
            continue
        rows = []
        errors = {name: [] for name in BARS}
        for name in names:
            real = first_prediction(folder / "real" / f"{name}.json")
            predicted = first_prediction(folder / "predicted" / f"{name}.json")
            if real is None:
                continue
            r, p = figures(real), figures(predicted or {})
            if on_cpu:  # a CPU has no caching allocator
                r["reserved"] = None
            here = {n: error(p[n], r[n]) for n in BARS}
            for n in BARS:
                errors[n].append(here[n])
            rows.append(
                f"| {name.removeprefix(f'step-{kind}-')} | {seconds(r['step'])} | {seconds(p['step'])} "
                f"| {percent(here['step'])} | {mebibytes(r['allocated'])} "
                f"| {percent(here['allocated'])} | {mebibytes(r['reserved'])} "
                f"| {percent(here['reserved'])} | {provenance(predicted) if predicted else 'no prediction'} |")
        if not rows:
            continue
        if kind != "calibrated":
            for n in BARS:
                judged[n] += errors[n]
        lines += [f"### {meaning.capitalize()}", "",
                  "| model, precision, batch | real step | predicted | error | real allocated | error "
                  "| real reserved | error | predicted from |",
                  "| --- | --: | --: | --: | --: | --: | --: | --: | --- |", *rows, "",
                  "Median size of the errors: " +
                  ", ".join(f"{n} {percent(median_size(errors[n])).lstrip('+')}" for n in BARS) + ".", ""]
    planned = sum(name.startswith("real-step-") and not name.startswith("real-step-calibrated-")
                  for name in words(folder / "plan"))
    lines += ["### Bars (everything that was not calibrated)", "",
              "| figure | median error | bar | | of how many |", "| --- | --: | --: | --- | --: |"]
    for name, bar in BARS.items():
        found = median_size(judged[name])
        count = sum(e is not None for e in judged[name])
        verdict = "not measured" if found is None else "reached" if found <= bar else "**missed**"
        lines.append(f"| {name} | {percent(found).lstrip('+')} | {100 * bar:.0f} % | {verdict} "
                     f"| {count}{f' of {planned}' if planned else ''} |")
    lines.append("")


def last_loss(real):
    loss = (real.get("each_loss") or [None])[-1]
    return "loss is no number" if loss is None else f"loss {loss:.4f} in the last step"


def several_ranks(folder, lines):
    names = sorted(p.stem for p in (folder / "real").glob("ranks-*.json"))
    if not names:
        return
    lines += ["## Several ranks on this machine, over Gloo", "",
              "| strategy, model, ranks | real step | 5 % to 95 % | predicted | error | mean staleness "
              "real | predicted | |", "| --- | --: | --: | --: | --: | --: | --: | --- |"]
    for name in names:
        real = first_prediction(folder / "real" / f"{name}.json")
        if real is None:
            continue
        predicted = first_prediction(folder / "predicted" / f"{name}.json") or {}
        low, high = real.get("step_interval_seconds", [None, None])
        staleness = [f"{p['staleness']['mean']:.2f}" if p.get("staleness") else "-"
                     for p in (real, predicted)]
        step = predicted.get("step_seconds")
        lines.append(
            f"| {name.removeprefix('ranks-')} | {seconds(real['step_seconds'])} "
            f"| {seconds(low)} to {seconds(high)} | {seconds(step)} "
            f"| {percent(error(step, real['step_seconds']))} | {staleness[0]} | {staleness[1]} "
            f"| {last_loss(real)} |")
    lines.append("")


def folder_device(folder):
    try:
        for line in (folder / "profile" / "profile.yaml").read_text().splitlines():
            if line.startswith("device:"):
                return line.split(":", 1)[1].strip().strip('"')
    except OSError:
        pass
    return "unknown"


def top_level(folder, keys):
    """The lines of some top-level keys of the profile, as they stand."""
    taking, lines = False, []
    try:
        text = (folder / "profile" / "profile.yaml").read_text()
    except OSError:
        return ["no profile was written"]
    for line in text.splitlines():
        if line[:1] not in (" ", "-"):
            taking = line.split(":")[0] in keys
        if taking:
            lines.append(line)
    return lines


def end_of_log(folder, name):
    try:
        lines = (folder / "logs" / f"{name}.log").read_text(errors="replace").split("\n")
    except OSError:
        return ""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": `{last[:200].replace('`', chr(39))}`" if last else ""


def missing(folder):
    """What failed, what has no partner (every real run needs its prediction and the reverse), and
    what of the plan was not run yet."""
    failed = words(folder / "failed")
    lines = [f"- Failed: {name}{end_of_log(folder, name)}" for name in failed]
    good = {kind: {path.stem for path in (folder / kind).glob("*.json") if first_prediction(path)}
            for kind in ("real", "predicted")}
    alone = {kind: set(names) for kind, names in good.items()}
    if not folder_device(folder).startswith("cpu"):  # ranks that share a GPU are not predicted
        alone["predicted"] |= {name for name in good["real"] if name.startswith("ranks-")}
    for kind, names in (("prediction", alone["real"] - alone["predicted"]),
                        ("real run", alone["predicted"] - alone["real"])):
        if names:
            lines.append(f"- Without a {kind}: " + ", ".join(sorted(names)) + ".")
    plan = words(folder / "plan")
    there = ({f"real-{name}" for name in good["real"]} |
             {path.name for path in (folder / "done").glob("*")})
    rest = [name for name in plan if name not in there and name not in failed]
    if rest:
        cut = set(words(folder / "cut"))
        lines.append(f"- Not run yet, {len(rest)} of {len(plan)}: " + ", ".join(
            name + (" (cut off)" if name in cut else "") for name in rest) + ".")
    if not any(good.values()):
        lines.append("- No run and no prediction is there.")
    return lines or ["Everything ran."]


def main():
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    machine = folder / "machine"
    lines = [f"# Acceptance on {folder_device(folder)}", "",
             *([machine.read_text().strip() + ".", ""] if machine.exists() else []),
             "What was measured on, from the profile:", "",
             "```yaml", *top_level(folder, {"device", "date", "versions", "settings", "noise", "host",
                                            "allocator"}), "```", ""]
    single_rank(folder, lines)
    several_ranks(folder, lines)
    lines += ["## What did not run", "", *missing(folder), ""]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
