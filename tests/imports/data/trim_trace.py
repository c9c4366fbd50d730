#!/usr/bin/env python3
"""Removes everything from a PyTorch profiler trace that an import does not read: trim_trace.py IN OUT [--keep N] [--about TEXT].

Events keep their times, names and threads. Removed are metadata, flow arrows, operators inside operators that launch
nothing, steps after the first N, and all arguments except ids and the shapes of products.
"""
import argparse
import gzip
import json

KINDS = {"cpu_op", "Operator", "user_annotation", "kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy",
         "Memset", "cuda_runtime", "Runtime"}
OPERATORS = {"cpu_op", "Operator"}
LAUNCHES = {"cuda_runtime", "Runtime"}
DEVICE = KINDS - OPERATORS - LAUNCHES - {"user_annotation"}
IDS = ("External id", "external id", "correlation", "Sequence number")
SHAPED = {"aten::linear", "aten::conv2d"}


def top_level(events):
    """Indices of the operators that no kept operator of their thread encloses."""
    ends, found = {}, set()
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        if event["cat"] in OPERATORS and "::" in event["name"] and event["ts"] >= ends.get(event["tid"], 0):
            ends[event["tid"]] = event["ts"] + event["dur"]
            found.add(id(event))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--keep", type=int, default=1000, help="steps (ProfilerStep#N)")
    parser.add_argument("--about", default="", help="where it comes from")
    given = parser.parse_args()
    with gzip.open(given.source, "rt") as file:
        trace = json.load(file)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in KINDS]
    steps = sorted((e for e in events if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
    if steps:
        kept = steps[:given.keep]
        begin, end = kept[0]["ts"], kept[-1]["ts"] + kept[-1]["dur"]
        events = [e for e in events if begin <= e["ts"] < end or e["cat"] in DEVICE]
    outer = top_level(events)
    launchers = {e["args"].get(k) for e in events if e["cat"] in DEVICE for k in ("External id", "external id")}
    calls = {e["args"]["correlation"] for e in events if e["cat"] in LAUNCHES}
    with gzip.GzipFile(given.target, "wb", mtime=0) as file:
        head = {"schemaVersion": 1, "about": given.about,
                "deviceProperties": [{"id": 0, "name": p["name"]} for p in trace.get("deviceProperties", [])[:1]],
                "baseTimeNanoseconds": trace.get("baseTimeNanoseconds", 0)}
        lines = []
        for e in events:
            inner = e["cat"] in OPERATORS and "::" in e["name"] and id(e) not in outer
            if inner and e["args"].get("External id") not in launchers:
                continue
            if e["cat"] in DEVICE and e["args"].get("correlation") not in calls:
                continue  # the event belongs to a step that was removed
            args = {key: e["args"][key] for key in IDS if key in e.get("args", {})}
            if e["name"] in SHAPED and "Input Dims" in e["args"]:
                args["Input Dims"] = e["args"]["Input Dims"][:2]
            name = e["name"][:24] if e["cat"] in DEVICE else e["name"]
            lines.append(json.dumps({"ph": "X", "cat": e["cat"], "name": name, "tid": e["tid"], "ts": e["ts"],
                                     "dur": e["dur"], "args": args}))
        text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
        file.write(text.encode())


main()
