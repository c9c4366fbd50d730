#!/usr/bin/env python3
"""How long genuine PyTorch's training step takes on the GPU at hand, in Python and eager, as people train.

Reads jobs from stdin, a JSON object a line ({"model": "resnet50", "batch": 32, "precision": "amp-bf16"}), and prints one line for
each: the same and what was measured. The batch lies on the device; SGD with momentum. `step`: seconds of one of a row of steps
that nobody waits for in between; `forward`, `backward`, `update`: seconds in which the host issues these, each with an empty queue;
`allocated`, `reserved`: bytes at the peak. Medians. With "compile": true, through torch.compile; "foreach": false, an optimizer that
loops over its tensors.
"""
import json
import statistics
import sys
import time
import warnings

import torch
from torch import nn

import networks

HALF = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}
DEFAULTS = dict(precision="fp32", sequence=1024, compile=False, foreach=None, rounds=5, steps=10)


def measure(given):
    job = type("Job", (), {**DEFAULTS, **given})
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = job.precision == "tf32"
    language, half = networks.is_language(job.model), HALF.get(job.precision)
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
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            print(json.dumps({**job, **measure(job)}), flush=True)
        except torch.OutOfMemoryError:
            print(json.dumps({**job, "error": "out of memory"}), flush=True)
        torch.cuda.empty_cache()
