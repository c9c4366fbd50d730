"""Parts that every script here shares: a world of one process, a network, its parallel forms.

One process plays one rank: the fake process group answers every collective at once and moves nothing, and the stub
CUDA runtime (../gpu/stub.py) computes nothing. Genuine: DTensor, parallelize_module, fully_shard, pipelining, context
parallel, autograd, the caching allocator. Not genuine: values, times, NCCL's own buffers.
"""
import contextlib
import functools
import json
import os
import sys
import traceback
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

warnings.filterwarnings("ignore")
CUDA = "cuda"
DEFAULTS = dict(layers=4, hidden=1024, heads=16, kv_heads=4, ffn=2816, vocabulary=32000, sequence=1024, batch=1, micro_batches=1,
                tp=1, sp=False, loss_parallel=False, dp=1, fsdp=False, reshard=None, cp=1, pp=1, chunks=1, schedule="1F1B",
                precision="fp32", optimizer="adamw", fused=False, checkpoint="none", rotate="allgather", steps=3, rank=0, clip=0.0,
                per_stage=None, active_stages=None, return_outputs=False)


class Job:
    """A configuration: DEFAULTS and the differences. `batch`: sequences of one micro-batch on one data-parallel rank."""

    def __init__(self, settings):
        unknown = set(settings) - set(DEFAULTS)
        if unknown:
            raise ValueError(f"unknown: {sorted(unknown)}")
        self.__dict__.update(DEFAULTS, **settings)
        self.world = self.pp * self.dp * self.cp * self.tp


class Attention(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.size = job.hidden // job.heads
        self.wq = nn.Linear(job.hidden, job.hidden, bias=False)
        self.wk = nn.Linear(job.hidden, job.kv_heads * self.size, bias=False)
        self.wv = nn.Linear(job.hidden, job.kv_heads * self.size, bias=False)
        self.wo = nn.Linear(job.hidden, job.hidden, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (w(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))  # the heads of this rank
        q = q * cos + rotated(q) * sin
        k = k * cos + rotated(k) * sin
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return self.wo(y.transpose(1, 2).flatten(2))


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class FeedForward(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.w1 = nn.Linear(job.hidden, job.ffn, bias=False)
        self.w2 = nn.Linear(job.ffn, job.hidden, bias=False)
        self.w3 = nn.Linear(job.hidden, job.ffn, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, job):
        super().__init__()
        self.attention_norm = nn.RMSNorm(job.hidden, eps=1e-5)
        self.attention = Attention(job)
        self.ffn_norm = nn.RMSNorm(job.hidden, eps=1e-5)
        self.feed_forward = FeedForward(job)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """A Llama, or the part of a Llama that is one pipeline stage: `first` has the embedding, `last` norm and head."""

    def __init__(self, job, layers, first=True, last=True):
        super().__init__()
        self.size, self.tokens = job.hidden // job.heads, job.sequence
        self.tok_embeddings = nn.Embedding(job.vocabulary, job.hidden) if first else None
        self.layers = nn.ModuleDict({str(i): Block(job) for i in layers})
        self.norm = nn.RMSNorm(job.hidden, eps=1e-5) if last else None
        self.output = nn.Linear(job.hidden, job.vocabulary, bias=False) if last else None
        self.cos = self.sin = None

    def tables(self, device, kind, share=1):
        self.cos = torch.ones(1, 1, self.tokens // share, self.size, dtype=kind, device=device)
        self.sin = self.cos.clone()

    def forward(self, x):
        x = self.tok_embeddings(x) if self.tok_embeddings is not None else x
        for block in self.layers.values():
            x = block(x, self.cos, self.sin)
        x = self.norm(x) if self.norm is not None else x
        return self.output(x) if self.output is not None else x


def start(job):
    """Returns the mesh, with the dimensions pp, dp, cp and tp that are larger than one (and dp wherever FSDP is used)."""
    dist.init_process_group("fake", rank=job.rank, world_size=job.world, store=FakeStore())
    sizes = [(name, getattr(job, name)) for name in ("pp", "dp", "cp", "tp") if getattr(job, name) > 1 or name == "dp" and job.fsdp]
    if not sizes:
        sizes = [("dp", 1)]
    return dist.init_device_mesh(CUDA, tuple(size for _, size in sizes), mesh_dim_names=tuple(name for name, _ in sizes))


def tensor_parallel(job, model, mesh):
    """Shards as PyTorch's tutorial and torchtitan do: `sp` shards the sequence outside of attention and MLP."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                                   parallelize_module)
    outside = Shard(1) if job.sp else Replicate()
    plan = {"tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=outside),
            "output": ColwiseParallel(input_layouts=outside, output_layouts=Shard(-1) if job.loss_parallel else Replicate(),
                                      use_local_output=not job.loss_parallel)}
    if job.sp:
        plan["norm"] = SequenceParallel()
    parallelize_module(model, mesh, {name: style for name, style in plan.items() if getattr(model, name) is not None})
    for block in model.layers.values():
        plan = {"attention.wq": ColwiseParallel(), "attention.wk": ColwiseParallel(), "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=outside), "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w3": ColwiseParallel(), "feed_forward.w2": RowwiseParallel(output_layouts=outside)}
        if job.sp:
            plan.update({"attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
                         "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)),
                         "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))})
        parallelize_module(block, mesh, plan)


def checkpointed(job, model):
    if job.checkpoint == "none":
        return
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    options = {}
    if job.checkpoint == "operators":  # torchtitan's selective policy: keep attention, collectives and every second product
        from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
        aten = torch.ops.aten
        keep = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default,
                torch.ops._c10d_functional.reduce_scatter_tensor.default}

        def contexts():
            products = [0, 0]

            def policy(context, function, *a, **k):
                if function == aten.mm.default:
                    products[context.is_recompute] += 1
                saved = function in keep and True or function == aten.mm.default and products[context.is_recompute] % 2 == 1
                return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE
            return create_selective_checkpoint_contexts(policy)
        options["context_fn"] = contexts
    for name, block in list(model.layers.items()):
        model.layers[name] = checkpoint_wrapper(block, preserve_rng_state=False, **options)


def fully_sharded(job, model, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    names = tuple(name for name in ("dp", "cp") if name in mesh.mesh_dim_names)
    part = mesh[names]._flatten("dp_cp") if len(names) == 2 else mesh[names[0]]
    options = dict(mesh=part)
    if job.precision == "mixed":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reshard = job.reshard if job.reshard is not None else job.pp == 1  # torchtitan's default
    for block in model.layers.values():
        fully_shard(block, reshard_after_forward=reshard, **options)
    fully_shard(model, **options)


def network(job, mesh, layers, first=True, last=True):
    with torch.device("meta"):
        model = Llama(job, layers, first, last)
    if job.precision == "pure-bf16":
        model = model.to(torch.bfloat16)
    if job.tp > 1:
        tensor_parallel(job, model, mesh["tp"])
    checkpointed(job, model)
    if job.fsdp:
        fully_sharded(job, model, mesh)
    model.to_empty(device=CUDA)
    model.tables(CUDA, torch.float32 if job.precision == "fp32" else torch.bfloat16, job.cp)
    return model.train()


def loss_of(job, logits, labels):
    """The loss. With loss parallel the logits are a DTensor, sharded over the vocabulary."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def around(job):
    if not job.loss_parallel:
        return contextlib.nullcontext()
    from torch.distributed.tensor.parallel import loss_parallel
    return loss_parallel()


def optimizer_of(job, models):
    every = [p for model in models for p in model.parameters()]
    sharded = [p for p in every if hasattr(p, "placements")]
    # A foreach optimizer refuses tensors beside DTensors in one group (norms of TP without SP).
    parameters = [dict(params=some) for some in (sharded, [p for p in every if not hasattr(p, "placements")]) if some]
    if job.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=job.fused or None)
    return torch.optim.AdamW(parameters, lr=0.01, fused=job.fused or None)


def tokens(job, share=1):
    return torch.zeros(job.batch, job.sequence // share, dtype=torch.long, device=CUDA)


def stages_of(job):
    """The layers of each pipeline stage: spread evenly, or as `per_stage` says."""
    count = job.pp * job.chunks
    per = job.per_stage or [job.layers // count + (i < job.layers % count) for i in range(count)]
    if len(per) != count or sum(per) != job.layers:
        raise ValueError(f"{job.layers} layers on {count} stages: {per}")
    edges = [sum(per[:i]) for i in range(count + 1)]
    return [range(edges[i], edges[i + 1]) for i in range(count)]


def placed(job, rank):
    """Stages of one pipeline rank: r, r + p, ... in a loop, or r and 2p - 1 - r in a V."""
    if job.schedule in ("ZBVZeroBubble", "DualPipeV"):
        return [rank, 2 * job.pp - 1 - rank]
    return [rank + chunk * job.pp for chunk in range(job.chunks)]


class Pipeline:
    """The stages of this rank and the schedule that drives them; step() does the forwards and backwards of an optimizer step."""

    def __init__(self, job, mesh):
        from torch.distributed.pipelining import PipelineStage
        from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
        self.job, own, count = job, placed(job, mesh["pp"].get_local_rank()), job.pp * job.chunks
        kind = torch.float32 if job.precision == "fp32" else torch.bfloat16
        share = job.cp * (job.tp if job.sp else 1)
        inside = torch.empty(job.batch, job.sequence // share, job.hidden, dtype=kind, device="meta", requires_grad=True)
        ids = torch.empty(job.batch, job.sequence // job.cp, dtype=torch.long, device="meta")
        width = job.vocabulary // (job.tp if job.loss_parallel else 1)
        logits = torch.empty(job.batch, job.sequence // job.cp, width, dtype=kind, device="meta", requires_grad=True)
        self.models, stages = [], []
        for index in own:
            first, last = index == 0, index == count - 1
            model = network(job, mesh, stages_of(job)[index], first, last)
            self.models.append(model)
            stages.append(PipelineStage(model, index, count, torch.device(CUDA, 0), input_args=(ids if first else inside,),
                                        output_args=(logits if last else inside,), group=mesh.get_group("pp")))
        kind = get_schedule_class(job.schedule)
        options = dict(n_microbatches=job.micro_batches, loss_fn=lambda logits, labels: loss_of(job, logits, labels), scale_grads=False)
        if job.active_stages is not None:
            options["max_active_stages"] = job.active_stages
        self.schedule = kind(stages if issubclass(kind, PipelineScheduleMulti) else stages[0], **options)
        self.first, self.last = 0 in own, count - 1 in own

    def step(self):
        whole = dict(batch=self.job.batch * self.job.micro_batches)
        ids = torch.zeros(whole["batch"], self.job.sequence // self.job.cp, dtype=torch.long, device=CUDA)
        losses = [] if self.last else None
        target = ids if self.last else None
        with around(self.job):
            self.schedule.step(*((ids,) if self.first else ()), target=target, losses=losses, return_outputs=self.job.return_outputs)


class Plain:
    """A step without pipeline: micro-batches one after another; the last one reduces gradients (set_requires_gradient_sync)."""

    def __init__(self, job, mesh):
        self.job, self.models, self.mesh = job, [network(job, mesh, range(job.layers))], mesh

    def step(self, mark=lambda name: None):
        job, model = self.job, self.models[0]
        for micro in range(job.micro_batches):
            if job.fsdp and job.micro_batches > 1:
                model.set_requires_gradient_sync(micro + 1 == job.micro_batches)
            whole = tokens(job), tokens(job)
            if job.cp > 1:
                from torch.distributed.tensor.experimental import context_parallel
                from torch.distributed.tensor.experimental._attention import set_rotate_method
                set_rotate_method(job.rotate)
                ids, labels = whole
                context = context_parallel(self.mesh["cp"], buffers=[ids, labels], buffer_seq_dims=[1, 1], no_restore_buffers={ids, labels})
            else:
                (ids, labels), context = whole, contextlib.nullcontext()
            del whole
            with context:
                with around(job):
                    loss = loss_of(job, model(ids), labels)
                    mark("forward")
                    loss.backward()
                    mark("backward")
                del loss


def program(job, mesh):
    return Pipeline(job, mesh) if job.pp > 1 else Plain(job, mesh)


def answers(measure):
    """Reads configurations from the arguments or stdin, JSON each; a child for each configuration and rank prints its answer's lines."""
    lines = sys.argv[1:] or [line for line in sys.stdin if line.strip()]
    failed = 0
    for line in lines:
        settings = json.loads(line)
        ranks = settings.pop("ranks", [settings.get("rank", 0)])
        for rank in ranks:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                keep = os.dup(1)
                os.dup2(2, 1)  # stdout is for answers, and libraries print on it
                try:
                    answer = measure(Job(dict(settings, rank=rank)))
                except BaseException:
                    answer = [dict(case=settings, rank=rank, error=traceback.format_exc()[-3000:])]
                with os.fdopen(keep, "w") as out:
                    for line in answer:
                        out.write(json.dumps(line) + "\n")
                os._exit(0 if "error" not in answer[0] else 1)
            failed |= os.waitpid(child, 0)[1] != 0
    return 1 if failed else 0
