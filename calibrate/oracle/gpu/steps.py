#!/usr/bin/env python3
"""How long does genuine PyTorch's training step take on this GPU, in Python and eager?

Reads jobs from stdin, a JSON object a line ({"model": "resnet50", "batch": 32, "precision": "amp-bf16"}), and prints
one line for each: the job and its measured figures. The batch lies on the device; the optimizer is SGD with momentum.
Every figure is a median. `step`: seconds of one step in a row of steps without waits in between; `forward`,
`backward`, `update`: seconds in which the host issues each part, with an empty queue before it; `allocated`,
`reserved`: bytes at the peak. "compile": true measures through torch.compile, and "foreach": false an optimizer that
loops over its tensors.

steps.py --compare FILE PLATFORM [PROFILE]: prints predictions beside the figures in FILE, as a Markdown table: by the
platform's files alone, and with the profile. Needs no PyTorch. LOCKSTEP_PROGRAM: the built program.

steps.py --hosts FILE PLATFORM: prints the host time of an operator of forward and of backward in FILE, by the program's
count of operators.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

LANGUAGE = ("gpt", "llama", "mistral")
DEFAULTS = dict(precision="fp32", sequence=1024, compile=False, foreach=None, rounds=5, steps=10)


def predicted(program, row, platform, profile, framework=None):
    """Returns the predicted step (s) and the allocated bytes."""
    scenario = {"name": "step", "model": row["model"], "precision": row.get("precision", "fp32"), "platform": platform, "gpus": [1],
                "batch": {"per_gpu": row["batch"]}, "strategies": ["ddp"], "data_loading": {"on_device": True},
                "optimizer": {"name": "sgd", "momentum": 0.9, "implementation": "for-loop" if row.get("foreach") is False else "foreach"},
                "input": {"sequence": row.get("sequence", 1024)} if row["model"].startswith(LANGUAGE) else {"image": [3, 224, 224]}}
    if framework:
        scenario["framework"] = framework
    if profile:
        scenario["profile"] = str(pathlib.Path(profile).resolve())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "step.yaml")
        file.write_text(json.dumps(scenario))
        done = subprocess.run([program, "run", file, "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"steps.py: {row['model']}: {done.stderr}")
    point = json.loads(done.stdout)["predictions"][0]
    return point["median_step_seconds"], point["memory"]["allocated_bytes"]


def compare(program, file, platform, profile=None):
    sources = [("predicted", None)] + ([("with the profile", profile)] if profile else [])
    table = [["model", "precision", "batch"]]
    for what in ("step", "allocated"):
        table[0] += [f"real {what}"] + [cell for name, _ in sources for cell in (name, "error")]
    errors = []
    for line in pathlib.Path(file).read_text().splitlines():
        row = json.loads(line)
        if row.get("compile") or "error" in row:
            continue
        answers = [predicted(program, row, platform, known) for _, known in sources]
        cells = [row["model"], row.get("precision", "fp32") + (", for-loop update" if row.get("foreach") is False else ""),
                 str(row["batch"])]
        errors.append([])
        for i, (what, text) in enumerate((("step", lambda s: f"{1e3 * s:.4g} ms"), ("allocated", lambda b: f"{b / 2**30:.3f} GiB"))):
            cells.append(text(row[what]))
            for answer in answers:
                errors[-1].append(answer[i] / row[what] - 1)
                cells += [text(answer[i]), f"{100 * errors[-1][-1]:+.1f} %"]
        table.append(cells)
    sizes = [f"{100 * statistics.median(map(abs, column)):.1f} %" for column in zip(*errors)]
    half = len(sources)
    table.append(["median size of the errors", "", ""] + [cell for some in (sizes[:half], sizes[half:]) for cell in
                                                          ["", *(c for size in some for c in ("", size))]])
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    print("\n".join([lines[0], "|" + " --- |" * 3 + " ---: |" * (len(table[0]) - 3), *lines[1:]]))


def operators(program, row, platform):
    """-> of forward, of backward: from steps in which one takes the host 10 ms"""
    slow = {"operator_seconds": "10 ms", "update_share": 0}
    one, two = (predicted(program, row, platform, None, {**slow, "backward_share": share})[0] for share in (1, 2))
    backward = round((two - one) / 0.01)
    return round(one / 0.01) - backward, backward


def hosts(program, file, platform):
    # A queue holds 1,024 launches: in longer passes the host waits for the device.
    longest = 1000
    print("| model | precision | batch | forward operators | us each | backward operators | us each | share |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    shares = {}
    for line in pathlib.Path(file).read_text().splitlines():
        row = json.loads(line)
        if row.get("compile") or "error" in row:
            continue
        forward, backward = operators(program, row, platform)
        if max(forward, backward) > longest:
            continue
        each = row["forward"] / forward, row["backward"] / backward
        shares.setdefault(row["model"], []).append(each[1] / each[0])
        print(f"| {row['model']} | {row.get('precision', 'fp32')} | {row['batch']} | {forward} | {1e6 * each[0]:.1f} | {backward} | "
              f"{1e6 * each[1]:.1f} | {each[1] / each[0]:.2f} |")
    median = statistics.median(share for some in shares.values() for share in some)
    without = [statistics.median(share for other, some in shares.items() if other != model for share in some) for model in shares]
    print(f"\nmedian share {median:.2f}; {min(without):.2f} to {max(without):.2f} without any one model")


def measure(given):
    job = type("Job", (), {**DEFAULTS, **given})
    half = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(job.precision)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job.precision == "tf32"
    language = job.model.startswith(LANGUAGE)
    with torch.device("cuda"):
        model = networks.build(job.model, None, False, job.sequence)
        if language:
            x = torch.randint(1000, (job.batch, job.sequence))
            y = torch.randint(1000, (job.batch, job.sequence))
        else:
            x = torch.randn(job.batch, 3, 224, 224)
            y = torch.randint(1000, (job.batch,))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, foreach=job.foreach)
    scaler = torch.amp.GradScaler(enabled=job.precision == "amp-fp16")
    forward = torch.compile(model) if job.compile else model

    def step(mark=lambda: None):
        optimizer.zero_grad(set_to_none=True)
        mark()
        with torch.autocast("cuda", half or torch.bfloat16, enabled=half is not None):
            out = forward(x)
            loss = nn.functional.cross_entropy(out.view(-1, out.shape[-1]), y.view(-1))
        del out
        mark()
        scaler.scale(loss).backward()
        mark()
        scaler.step(optimizer)
        scaler.update()
        mark()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    steps, hosts = [], []
    for _ in range(job.rounds):
        begin = time.perf_counter()
        for _ in range(job.steps):
            step()
        torch.cuda.synchronize()
        steps.append((time.perf_counter() - begin) / job.steps)
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    for _ in range(2 * job.rounds):
        ends, begins = [], []

        def mark():
            ends.append(time.perf_counter())
            torch.cuda.synchronize()
            begins.append(time.perf_counter())

        step(mark)
        hosts.append([end - begin for begin, end in zip(begins, ends[1:])])
    phases = dict(zip(("forward", "backward", "update"), map(statistics.median, zip(*hosts))))
    return dict(step=statistics.median(steps), **phases, allocated=allocated, reserved=reserved, torch=torch.__version__,
                gpu=torch.cuda.get_device_name())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        verb = {"--compare": compare, "--hosts": hosts}.get(sys.argv[1])
        if not verb or len(sys.argv) not in ((4, 5) if verb is compare else (4,)) or "LOCKSTEP_PROGRAM" not in os.environ:
            sys.exit("usage: LOCKSTEP_PROGRAM=.../lockstep steps.py --compare FILE PLATFORM [PROFILE], steps.py --hosts FILE PLATFORM, "
                     "or steps.py with jobs on stdin")
        verb(os.environ["LOCKSTEP_PROGRAM"], *sys.argv[2:])
        sys.exit()
    import torch
    from torch import nn

    import networks
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            print(json.dumps({**job, **measure(job)}), flush=True)
        except torch.OutOfMemoryError:
            print(json.dumps({**job, "error": "out of memory"}), flush=True)
        torch.cuda.empty_cache()
