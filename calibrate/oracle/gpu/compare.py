#!/usr/bin/env python3
"""Our peak memory against genuine PyTorch's, case by case.

    compare.py --lockstep PROGRAM [--genuine FILE] [--python PYTHON] [--record] [--only TEXT] [--cases FILE]

The genuine figures come from FILE (genuine.jsonl beside this script). With --python they are measured: PYTHON has
PyTorch's CUDA wheel and torchvision (peft and bitsandbytes for cases with `lora`), and runs on a CUDA runtime that
computes nothing (cuda_stub.c, built with gcc). --record writes the measured figures to FILE. The exit code is 1 where
a case is farther than 2 % (5 % for cases in UNMODELLED), or where fewer than 89 % of the reserved figures are in their
bracket (docs/oracle.md).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from stub import stub_environment

HERE = pathlib.Path(__file__).resolve().parent
LANGUAGE = ("gpt", "llama", "mistral")
# These cases are farther than 2 % for a reason in docs/oracle.md; any other case beyond 2 % fails.
UNMODELLED = ['{"model": "resnet18", "mode": "fsdp2", "precision": "pure-bf16", "batch": 9, "image": 224, "world": 2, "optimizer": "adamw", "reshard": false, "sharding": "shard_grad_op"}']


def scenario_of(job):
    """Our scenario of the same job."""
    mode = job["mode"]
    if mode in ("ddp", "single"):
        options = {"gradient_as_bucket_view": job.get("view"), "find_unused_parameters": job.get("find_unused"),
                   "bucket_size": f"{job['bucket_mb']} MiB" if "bucket_mb" in job else None, "comm_hook": job.get("hook")}
        strategy = {"ddp": {key: value for key, value in options.items() if value}}
    elif mode == "zero":
        strategy = {"zero": {"reduction": "all-reduce", "bucket_size": "25 MiB"}}
    else:
        options = {"version": int(mode[-1]), "sharding": job.get("sharding", "full_shard"), "wrap": {"policy": "block"}}
        if job.get("wrap_size"):
            options["wrap"] = {"policy": "size", "min_parameters": job["wrap_size"]}
        if job.get("reduce"):
            options["reduce_element_size"] = f"{job['reduce']} B"
        if job.get("group"):
            options.update(sharding="hybrid_shard", shard_group=job["group"])
        for ours, theirs in (("backward_prefetch", "prefetch"), ("limit_all_gathers", "limit"), ("forward_prefetch", "fwd"),
                             ("use_orig_params", "use_orig"), ("cpu_offload", "offload"), ("autocast", "autocast"), ("sync_every_micro_batch", "sync")):
            if theirs in job:
                options[ours] = job[theirs]
        strategy = {"fsdp": options}
    optimizer = {"name": job.get("optimizer", "sgd"), "weight_decay": job.get("weight_decay", 0),
                 "implementation": "fused" if job.get("fused") else "for-loop" if job.get("foreach") is False else "foreach"}
    if optimizer["name"] in ("sgd", "rmsprop"):
        optimizer["momentum"] = job.get("momentum", 0.9)
    world = 1 if mode == "single" else job.get("world", 8)
    scenario = {"name": "case", "model": job["model"], "precision": job.get("precision", "fp32"), "optimizer": optimizer,
                "batch": {"micro": job.get("batch", 2), "accumulation": job.get("micro", 1)}, "platform": "dgx-a100-80gb",
                "gpus": world, "strategies": [strategy], "activation_checkpointing": job.get("ckpt", False),
                "gradient_clipping": job.get("clip", 0)}
    if "lora" in job:
        scenario["adapters"] = job["lora"]
        scenario["frozen"] = {"half": job.get("half", False), "quantization": job.get("quantize", "none"), "nested": job.get("nested", False)}
    if "frozen" in job:
        scenario["frozen"] = {"parameters": job["frozen"]}
    if job.get("channels_last"):
        scenario["memory_format"] = "channels_last"
    if job["model"].startswith(LANGUAGE):
        scenario["input"] = {"sequence": job.get("sequence", 1024)}
    else:
        scenario["input"] = {"image": [3, job.get("image", 224), job.get("image", 224)], "classes": 1000}
    if "layers" in job:
        scenario["model_parameters"] = {"layers": job["layers"]}
    if job["model"].startswith("gpt"):
        scenario.setdefault("model_parameters", {})["dropout"] = 1
    return scenario


def ours(program, job, folder):
    """Returns our memory, and the modules that are FSDP units."""
    path = folder / "case.yaml"
    path.write_text(json.dumps(scenario_of(job)))

    def ask(*arguments):
        done = subprocess.run([program, *arguments, str(path)], capture_output=True, text=True)
        if not done.stdout:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    memory = ask("run", "--json")["predictions"][0]["memory"]
    units = None
    if job["mode"].startswith("fsdp") and not job["model"].startswith(LANGUAGE) and not job.get("wrap_size"):
        exported = ask("export", "--layers")
        norms = [layer["name"] for layer in exported["steps"][0]["layers"] if layer["kind"] == "batch_norm"]  # PyTorch chooses their units itself
        units = [unit["module"] for unit in exported["points"][0]["units"] if not unit["root"] and unit["module"] not in norms]
    return memory, units


class Genuine:
    """PyTorch on the stub; `events`: done (the fastest GPU) or late (the slowest)."""

    def __init__(self, python, events):
        self.process = subprocess.Popen([python, str(HERE / "peak.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=stub_environment(python, events))

    def ask(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def measured(python, jobs, keep, save):
    """Returns figures by case, without measuring cases in `keep` again. Calls save(keep) after each case."""
    servers = [Genuine(python, events) for events in ("done", "late")]
    for case, job in jobs.items():
        if case in keep:
            continue
        fast, slow = (server.ask(job) for server in servers)
        if "error" in fast or "error" in slow:
            print(f"{case}: {fast.get('error', '') or slow.get('error', '')}", file=sys.stderr)
            continue
        keep[case] = {"allocated": fast["allocated"], "at": fast["at"], "torch": fast["torch"],
                      "reserved": sorted((fast["reserved"], slow["reserved"]))}
        save(keep)
    return keep


def recorded(path):
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {json.dumps(line.pop("case")): line for line in lines}


def share(values):
    return sum(values) / len(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lockstep", required=True)
    parser.add_argument("--genuine", type=pathlib.Path, default=HERE / "genuine.jsonl")
    parser.add_argument("--python")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", help="cases with this text")
    parser.add_argument("--cases", type=pathlib.Path, default=HERE / "cases.jsonl")
    given = parser.parse_args()
    cases = [line for line in given.cases.read_text().splitlines() if given.only in line]
    memory, jobs = {}, {}
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            job = json.loads(case)
            try:
                memory[case], units = ours(given.lockstep, job, pathlib.Path(name))
            except RuntimeError as error:
                print(f"{case}: {error}", file=sys.stderr)
                continue
            jobs[case] = dict(job, wrap=units) if units is not None else job
    known = recorded(given.genuine)
    if given.python:
        def save(figures):
            lines = [json.dumps({"case": json.loads(case), **figures[case]}) for case in figures]
            if given.record:
                given.genuine.write_text("\n".join(lines) + "\n")

        known = measured(given.python, jobs, known if given.record else {}, save)
    print(f"{'allocated':>10} {'ours':>9} {'error':>7}   {'reserved':>19} {'ours':>9}       case (MB)")
    errors, brackets, far = [], [], []
    for case in cases:
        if case not in known or case not in memory:
            continue
        genuine, mine = known[case], memory[case]
        error = mine["allocated_bytes"] / genuine["allocated"] - 1
        low, high = genuine["reserved"]
        inside = 0.95 * low <= mine["reserved_bytes"] <= 1.05 * high
        errors.append(abs(error))
        if abs(error) > 0.02 and case not in UNMODELLED:
            far.append(case)
        brackets.append(inside)
        text = case.replace('"', "").strip("{}")
        print(f"{genuine['allocated'] / 1e6:10.1f} {mine['allocated_bytes'] / 1e6:9.1f} {error:+7.1%}   "
              f"{low / 1e6:9.1f}-{high / 1e6:9.1f} {mine['reserved_bytes'] / 1e6:9.1f} {'  ' if inside else 'out'}   {text}"
              f"   [{genuine['at']} | {mine['peak_at']}]")
    if not errors:
        sys.exit("there are no genuine figures: give --python")
    close, worst, held = share([e <= 0.02 for e in errors]), max(errors), share(brackets)
    print(f"{len(errors)} cases: allocated within 2 % in {close:.1%}, median {sorted(errors)[len(errors) // 2]:.2%}, "
          f"worst {worst:.1%}; reserved between a fast and a slow GPU's, or 5 % from it, in {held:.1%}")
    return 0 if len(errors) == len(cases) and not far and worst <= 0.05 and held >= 0.89 else 1


if __name__ == "__main__":
    sys.exit(main())
