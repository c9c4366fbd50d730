#!/usr/bin/env python3
"""How long genuine PyTorch's training step takes on the GPU at hand, in Python and eager, as people train.

Reads jobs from stdin, a JSON object a line ({"model": "resnet50", "batch": 32, "precision": "amp-bf16"}), and prints one line for
each: the same and what was measured. The batch lies on the device; SGD with momentum. `step`: seconds of one of a row of steps
that nobody waits for in between; `forward`, `backward`, `update`: seconds in which the host issues these, each with an empty queue;
`allocated`, `reserved`: bytes at the peak. Medians. With "compile": true, through torch.compile; "foreach": false, an optimizer that
loops over its tensors.

steps.py --compare FILE PLATFORM [PROFILE]: predictions of what is in FILE beside it, as a Markdown table: as the platform's files have
it, and with the profile. Needs no PyTorch. LOCKSTEP_PROGRAM: the built program.
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

GPTS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
DEFAULTS = dict(precision="fp32", sequence=1024, compile=False, foreach=None, rounds=5, steps=10)


def predicted(program, row, platform, profile):
    """-> step (s), allocated (bytes)"""
    scenario = {"name": "step", "model": row["model"], "precision": row.get("precision", "fp32"), "platform": platform, "gpus": [1],
                "batch": {"per_gpu": row["batch"]}, "strategies": ["ddp"], "data_loading": {"on_device": True},
                "optimizer": {"name": "sgd", "momentum": 0.9,
                              "implementation": "foreach" if row.get("foreach", True) else "for-loop"}}
    if row["model"] not in GPTS:
        scenario["input"] = {"image": [3, 224, 224]}
    if profile:
        scenario["profile"] = str(pathlib.Path(profile).resolve())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "step.yaml")
        file.write_text(json.dumps(scenario))
        answer = subprocess.run([program, "run", file, "--json"], check=True, capture_output=True, text=True).stdout
    point = json.loads(answer)["predictions"][0]
    return point["median_step_seconds"], point["memory"]["allocated_bytes"]


def compare(file, platform, profile=None):
    program = os.environ["LOCKSTEP_PROGRAM"]
    table = [["model", "precision", "batch", "real step", "predicted", "error", "with the profile", "error", "real allocated", "error",
              "with the profile"]]
    sizes = [[], [], [], []]
    for line in pathlib.Path(file).read_text().splitlines():
        row = json.loads(line)
        if row.get("compile"):
            continue
        answers = [predicted(program, row, platform, known) for known in ([None, profile] if profile else [None])]
        errors = [answer[i] / row[what] - 1 for i, what in enumerate(("step", "allocated")) for answer in answers]
        for size, error in zip(sizes, errors):
            size.append(abs(error))
        steps = [cell for answer, error in zip(answers, errors)
                 for cell in (f"{1e3 * answer[0]:.4g} ms", f"{100 * error:+.1f} %")]
        table.append([row["model"], row.get("precision", "fp32") + ("" if row.get("foreach", True) else ", for-loop update"),
                      str(row["batch"]), f"{1e3 * row['step']:.4g} ms", *steps, f"{row['allocated'] / 2**30:.3f} GiB",
                      *(f"{100 * error:+.1f} %" for error in errors[len(answers):])])
    median = [f"{100 * statistics.median(size):.1f} %" if size else "" for size in sizes]
    table.append(["median size of the errors", "", "", "", "", median[0], "", median[1], "", median[2], median[3]])
    lines = ["| " + " | ".join(cells) + " |" for cells in table]
    print("\n".join([lines[0], "|" + " --- |" * 3 + " ---: |" * 8, *lines[1:]]))


def measure(given):
    job = type("Job", (), {**DEFAULTS, **given})
    half = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(job.precision)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job.precision == "tf32"
    language = job.model in GPTS
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
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:])
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
