#!/usr/bin/env python3
"""Bytes that AOTAutograd's min-cut partitioner keeps for backward, on a CUDA runtime that computes nothing.

    saved.py PYTHON < cases.jsonl > genuine.jsonl

Reads jobs from stdin, a JSON object a line ({"model": "gpt2", "layers": 2, "batch": 4, "precision": "amp-bf16",
"compile": "whole"}), and answers each with the same object and `saved`: for each compiled graph, in the order of
forward, the bytes of backward's inputs without the graph's own inputs and the gradients. PYTHON has PyTorch's CUDA
wheel and torchvision. Inductor's passes and partitioner run; its code generator does not, and nothing is compiled.
"""
import contextlib
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))


class Graphs:
    """Inductor's inner compiler: notes the tensors that backward reads, and returns tensors of the right shapes."""

    def __init__(self):
        self.saved = []

    def __call__(self, module, inputs, **options):
        import torch

        if options.get("is_backward"):
            names = {n.name: n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"}
            kept = [v for n, v in names.items() if not n.startswith(("primals", "tangents")) and isinstance(v, torch.Tensor)]
            self.saved.insert(0, sum(v.numel() * v.element_size() for v in kept))
        results = [n for n in module.graph.nodes if n.op == "output"][0].args[0]
        values = [r.meta["val"] if isinstance(r, torch.fx.Node) else None for r in results]

        def run(_):
            return tuple(torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device)
                         if isinstance(v, torch.Tensor) else v for v in values)

        run._boxed_call = True
        return run


def saved(job):
    """The saved bytes of each graph."""
    import torch
    from torch import nn
    from torch._inductor import compile_fx as inductor

    import networks

    half = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}.get(job["precision"])
    pure = job["precision"] == "pure-bf16"
    graphs = Graphs()

    def backend(module, inputs):
        return inductor.compile_fx(module, inputs, inner_compile=graphs)

    class WithLoss(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x, target):
            y = self.model(x)
            y = y.logits if hasattr(y, "logits") else y
            return nn.functional.cross_entropy(y.flatten(0, -2).float(), target.flatten())

    torch._dynamo.reset()
    torch.set_default_device("cuda")
    sequence = job.get("sequence", 1024)
    model = networks.build(job["model"], job.get("layers"), False, sequence)
    model = (model.bfloat16() if pure else model).train()
    batch = job["batch"]
    if networks.is_language(job["model"]):
        x = torch.zeros(batch, sequence, dtype=torch.long)
        target = torch.zeros(batch, sequence, dtype=torch.long)
    else:
        x = torch.zeros(batch, 3, 224, 224, dtype=torch.bfloat16 if pure else torch.float32)
        target = torch.zeros(batch, dtype=torch.long)
    net = WithLoss(model)
    if job["compile"] == "whole":
        net.compile(backend=backend, fullgraph=True)
    else:
        for block in networks.blocks(model):
            block.compile(backend=backend, fullgraph=True)
    with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
        loss = net(x, target)
    loss.backward()
    return graphs.saved


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if os.environ.get("LD_PRELOAD", "").find("cuda_stub") < 0:
        from stub import stub_environment

        os.execvpe(sys.argv[1], [sys.argv[1], __file__, sys.argv[1]], stub_environment(sys.argv[1], "done"))
    for line in sys.stdin:
        job = {key: value for key, value in json.loads(line).items() if key not in ("saved", "error")}
        try:
            print(json.dumps({**job, "saved": saved(job)}), flush=True)
        except Exception as error:  # Dynamo cannot trace this model
            print(json.dumps({**job, "error": f"{type(error).__name__}: {error}"[:200]}), flush=True)
