#!/usr/bin/env python3
"""Writes lenet5_gpu.json: a CONSTRUCTED trace of two lenet5 steps in the format of a CUDA trace.

No GPU was measured. Host operators take 10 us each, every 20 us; kernels run later, on stream 7,
with the durations below; the backward pass runs on a second thread. Kernels name the operator that
launched them by "External id" in the first step and only by the runtime call's "correlation" in the
second one.
"""
import json

FORWARD = [  # operator, kernels (us), autograd nodes
    ("aten::conv2d", [40, 2], ["ConvolutionBackward0"]),
    ("aten::relu", [4], ["ReluBackward0"]),
    ("aten::max_pool2d", [5], ["MaxPool2DWithIndicesBackward0"]),
    ("aten::conv2d", [30], ["ConvolutionBackward0"]),
    ("aten::relu", [3], ["ReluBackward0"]),
    ("aten::max_pool2d", [4], ["MaxPool2DWithIndicesBackward0"]),
    ("aten::flatten", [], ["ViewBackward0"]),
    ("aten::linear", [10], ["TBackward0", "AddmmBackward0"]),
    ("aten::relu", [2], ["ReluBackward0"]),
    ("aten::linear", [8], ["TBackward0", "AddmmBackward0"]),
    ("aten::relu", [2], ["ReluBackward0"]),
    ("aten::linear", [6], ["TBackward0", "AddmmBackward0"]),
    ("aten::cross_entropy_loss", [3, 3], ["LogSoftmaxBackward0", "NllLossBackward0"]),
]
BACKWARD = {"ConvolutionBackward0": [60, 50], "AddmmBackward0": [9, 7],
            "MaxPool2DWithIndicesBackward0": [6], "ReluBackward0": [3],
            "LogSoftmaxBackward0": [2], "NllLossBackward0": [2]}
WEIGHTED = {"ConvolutionBackward0", "AddmmBackward0"}
MAIN, AUTOGRAD, STREAM = 100, 101, 7

events, ids, sequence = [], 0, 50
gpu_free = 0.0


def event(category, name, thread, start, duration, **args):
    events.append({"ph": "X", "cat": category, "name": name, "pid": 0 if thread == STREAM else 99,
                   "tid": thread, "ts": start, "dur": duration, "args": args})


def operator(name, thread, start, kernels, step, sequence_number=None, inner=None):
    """An operator, the inner operator that launches, the launches and the kernels."""
    global ids, gpu_free
    ids += 1
    extra = {} if sequence_number is None else {"Sequence number": sequence_number}
    event("cpu_op", name, thread, start, 10, **{"External id": ids, **extra})
    ids += 1
    event("cpu_op", inner or name + "_inner", thread, start + 1, 8, **{"External id": ids})
    for index, duration in enumerate(kernels):
        correlation = 1000 + len(events)
        event("cuda_runtime", "cudaLaunchKernel", thread, start + 2 + 3 * index, 2,
              **{"External id": ids, "cbid": 211, "correlation": correlation})
        gpu_free = max(gpu_free, start + 6) + duration + 1
        known = {"External id": ids} if step == 0 else {}
        event("kernel", "void some_kernel<float>(float*)", STREAM, gpu_free - duration, duration,
              **{"device": 0, "context": 1, "stream": STREAM, "correlation": correlation,
                 "grid": [1, 1, 1], "block": [128, 1, 1], **known})


for step in range(2):
    begin = clock = 1000.0 + 2000 * step
    gpu_free = begin
    clock += 10
    operator("aten::to", MAIN, clock, [20], step)  # the copy of the batch, before any layer
    nodes = []
    for name, kernels, backward in FORWARD:
        clock += 20
        operator(name, MAIN, clock, kernels, step, sequence)
        for node in backward:
            nodes.append((sequence, node))
            sequence += 1
    for number, node in reversed(nodes):
        clock += 20
        operator("autograd::engine::evaluate_function: " + node, AUTOGRAD, clock,
                 BACKWARD.get(node, []), step, number, node)
        for _ in range(2 if node in WEIGHTED else 0):
            clock += 20
            operator("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
                     AUTOGRAD, clock, [], step, None, "torch::autograd::AccumulateGrad")
    clock += 20
    event("user_annotation", "Optimizer.step#SGD.step", MAIN, clock, 60)
    operator("aten::_foreach_mul_", MAIN, clock + 5, [8], step)
    operator("aten::_foreach_add_", MAIN, clock + 25, [12], step)
    event("user_annotation", f"ProfilerStep#{step + 2}", MAIN, begin, clock + 80 - begin)

with open("lenet5_gpu.json", "w") as file:
    file.write('{"schemaVersion": 1, "about": "constructed by make_gpu_trace.py", '
               '"deviceProperties": [{"id": 0, "name": "NVIDIA Imaginary GPU", '
               '"totalGlobalMem": 1}], "baseTimeNanoseconds": 1790000000000000000,\n'
               '"traceEvents": [\n'
               + ",\n".join(json.dumps(e) for e in events) + "\n]}\n")
