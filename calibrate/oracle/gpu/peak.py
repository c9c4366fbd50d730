"""Memory that genuine PyTorch allocates for a training step, on a CUDA runtime that computes nothing (cuda_stub.c).

compare.py starts this script with the stub loaded. It reads jobs from stdin, a JSON object a line, and answers each
with a line: the values of torch.cuda.max_memory_allocated() and max_memory_reserved(). Each job runs in a child of its
own, so that no job sees another's memory.
"""
import contextlib
import functools
import gc
import json
import os
import sys
import traceback
import warnings

import torch
import torch.distributed as dist
import torchvision  # noqa: F401  imported once, for all children
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.testing._internal.distributed.fake_pg import FakeStore

import networks

DEFAULTS = dict(mode="ddp", batch=2, world=8, precision="fp32", optimizer="sgd", momentum=0.9, weight_decay=0.0, steps=3,
                sequence=1024, foreach=None, fused=None, layers=None, image=224, view=False, reshard=None, prefetch="pre",
                limit=True, sharding="full_shard", group=0, micro=1, sync=True, ckpt=False, use_orig=False, wrap=None,
                offload=False, find_unused=False, autocast=None, fwd=False, bucket_mb=None, clip=0.0, channels_last=False,
                lora=None, half=False, quantize=None, nested=False, frozen=(), hook=None, wrap_size=0, reduce=0)
IN_FLIGHT = []  # the message of the latest exchange, which NCCL holds until it is over: to the next one, or to the end of backward
HALF = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


def replace_convolutions():
    """Stands in for cuDNN: allocates outputs and gradients, and nothing else."""
    torch.backends.cudnn.enabled = False
    library = torch.library.Library("aten", "IMPL")

    def format_of(x):
        last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        return torch.channels_last if last else torch.contiguous_format

    def forward(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
        size = [x.shape[0], weight.shape[0]]
        for i in range(x.dim() - 2):
            size.append((x.shape[i + 2] + 2 * padding[i] - dilation[i] * (weight.shape[i + 2] - 1) - 1) // stride[i] + 1)
        return torch.empty(size, dtype=x.dtype, device=x.device, memory_format=format_of(x))

    def backward(gradient, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
        bias = torch.empty(weight.shape[0], dtype=weight.dtype, device=weight.device) if mask[2] else None
        return torch.empty_like(x) if mask[0] else None, torch.empty_like(weight) if mask[1] else None, bias

    library.impl("convolution", forward, "CUDA")
    library.impl("convolution_backward", backward, "CUDA")
    for name in ("trunc_normal_", "kaiming_normal_", "xavier_uniform_", "normal_", "uniform_", "constant_", "zeros_", "ones_",
                 "kaiming_uniform_"):
        setattr(nn.init, name, lambda tensor=None, *a, **k: tensor)
    return library


def ddp(job, model):
    options = dict(device_ids=[0], gradient_as_bucket_view=job.view, find_unused_parameters=job.find_unused)
    if job.bucket_mb is not None:
        options["bucket_cap_mb"] = job.bucket_mb
    net = nn.parallel.DistributedDataParallel(model, **options)

    class Reduced:  # this future carries a tensor, unlike the fake process group's
        def __init__(self, tensor, **ignored):
            IN_FLIGHT[:] = [tensor]
            self.future = torch.futures.Future()
            self.future.set_result([tensor])

        def get_future(self):
            return self.future

    def plain(state, bucket):
        return Reduced(bucket.buffer()).future.then(lambda done: done.value()[0])

    if job.hook:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
        dist.all_reduce = Reduced
        net.register_comm_hook(None, getattr(default_hooks, job.hook.replace("-", "_") + "_hook"))
    else:
        net.register_comm_hook(None, plain)
    return net


def fsdp2(job, model, units):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    half = HALF.get(job.precision)
    if job.group:
        mesh = dist.init_device_mesh("cuda", (job.world // job.group, job.group), mesh_dim_names=("replicas", "shards"))
    else:
        mesh = dist.init_device_mesh("cuda", (job.world,))
    options = dict(mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32 if job.reduce == 4 else half) if half else
                   MixedPrecisionPolicy(), offload_policy=CPUOffloadPolicy() if job.offload else OffloadPolicy())
    if job.reshard is not None:
        options["reshard_after_forward"] = job.reshard
    for unit in units:
        fully_shard(unit, **options)
    net = fully_shard(model, **options)
    net.to_empty(device="cpu" if job.offload else "cuda")
    if not job.sync:
        net.set_requires_gradient_sync(False)
    return net


def fsdp1(job, model, units, on_meta):
    from torch.distributed.fsdp import BackwardPrefetch, CPUOffload, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import CustomPolicy, size_based_auto_wrap_policy
    half = HALF.get(job.precision)
    chosen = {id(unit) for unit in units}
    prefetch = {"pre": BackwardPrefetch.BACKWARD_PRE, "post": BackwardPrefetch.BACKWARD_POST, "none": None}[job.prefetch]
    options = {}
    if job.group:
        options["device_mesh"] = dist.init_device_mesh("cuda", (job.world // job.group, job.group),
                                                       mesh_dim_names=("replicas", "shards"))
    if on_meta:
        options["param_init_fn"] = lambda module: module.to_empty(device="cuda", recurse=False)
    policy = CustomPolicy(lambda module: id(module) in chosen)
    if job.wrap_size:
        policy = functools.partial(size_based_auto_wrap_policy, min_num_params=job.wrap_size)
    return FullyShardedDataParallel(
        model, auto_wrap_policy=policy, device_id=0,
        mixed_precision=MixedPrecision(param_dtype=half, reduce_dtype=half) if half else None,
        use_orig_params=job.use_orig, sync_module_states=False,
        sharding_strategy=getattr(ShardingStrategy, job.sharding.upper()), limit_all_gathers=job.limit,
        forward_prefetch=job.fwd, cpu_offload=CPUOffload(True) if job.offload else None, backward_prefetch=prefetch, **options)


def quantized(job, model):
    """Makes the blocks' linear layers genuine bitsandbytes layers; their kernels compute nothing here."""
    import bitsandbytes
    for block in networks.blocks(model):
        for name, layer in list(block.named_modules()):
            if not isinstance(layer, nn.Linear):
                continue
            shape = dict(bias=layer.bias is not None)
            if job.quantize == "nf4":
                made = bitsandbytes.nn.Linear4bit(layer.in_features, layer.out_features, compute_dtype=torch.bfloat16, quant_type="nf4",
                                                  compress_statistics=job.nested, **shape)
            else:
                made = bitsandbytes.nn.Linear8bitLt(layer.in_features, layer.out_features, has_fp16_weights=False, threshold=6.0, **shape)
            parent = block.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], made)
    return model


def adapted(job, model):
    """Adds peft's own adapters; with checkpointing, transformers' enable_input_require_grads, too."""
    from peft import LoraConfig, get_peft_model
    inputs = model.wte if isinstance(model, networks.Gpt) else model.embed_tokens
    config = LoraConfig(r=job.lora["rank"], target_modules=job.lora["targets"], lora_dropout=job.lora.get("dropout", 0.0),
                        modules_to_save=job.lora.get("whole"))
    model = get_peft_model(model, config, autocast_adapter_dtype=job.precision != "pure-bf16")
    if job.ckpt:
        inputs.register_forward_hook(lambda module, given, output: output.requires_grad_(True))
    return model


def submodule(model, path):
    """By name, or by place where torchvision's names are others (RegNet's `block1-0`)."""
    for name in path.split("."):
        children = dict(model.named_children())
        model = children[name] if name in children else [*children.values()][int(name)]
    return model


def measure(given):
    job = type("Job", (), {**DEFAULTS, **given})
    library = replace_convolutions()
    dist.init_process_group("fake", rank=0, world_size=job.world, store=FakeStore())
    cuda, half = torch.device("cuda", 0), HALF.get(job.precision)
    language, sharded = networks.is_language(job.model), job.mode.startswith("fsdp")
    # FSDP1 unties parameters that are made on the meta device.
    on_meta = job.mode == "fsdp2" or sharded and job.model in networks.LLAMAS and job.model not in networks.TIED
    # RegNet computes its widths with tensors, and this GPU computes nothing.
    place = "cpu" if job.model.startswith("regnet") else "meta" if on_meta else "cuda"
    with torch.device("cpu" if job.quantize else place):
        model = networks.build(job.model, job.layers, job.ckpt, job.sequence)
    if place == "cpu":
        model = model.to(cuda)
    if job.precision == "pure-bf16" or job.half:
        model = model.to(torch.bfloat16)
    if job.quantize:
        model = quantized(job, model).to(cuda)
    base = model
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(name.startswith(module + ".") for module in job.frozen))
    if job.lora:
        model = adapted(job, model)
    if job.channels_last:
        model = model.to(memory_format=torch.channels_last)
    model.train()
    if sharded:
        units = [] if job.wrap_size else [submodule(model, path) for path in job.wrap] if job.wrap is not None else networks.blocks(base)
    if job.mode in ("ddp", "zero"):
        net = ddp(job, model)
    elif job.mode == "fsdp2":
        net = fsdp2(job, model, units)
    elif job.mode == "fsdp1":
        net = fsdp1(job, model, units, on_meta)
    else:
        net = model
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
             "rmsprop": torch.optim.RMSprop}
    options = dict(lr=0.01, weight_decay=job.weight_decay, foreach=job.foreach, fused=job.fused)
    if job.optimizer == "rmsprop":
        del options["fused"]
    if job.optimizer in ("sgd", "rmsprop"):
        options["momentum"] = job.momentum
    if job.mode == "zero":
        optimizer = ZeroRedundancyOptimizer(net.parameters(), kinds[job.optimizer], **options)
    else:
        optimizer = kinds[job.optimizer](net.parameters(), **options)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    peaks, overall = [], [0, 0]

    def mark(name):
        now = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        peaks.append((now[0], name))
        overall[:] = max(overall[0], now[0]), max(overall[1], now[1])
        torch.cuda.reset_peak_memory_stats()

    x = y = None
    for step in range(job.steps):
        for micro in range(job.micro):
            if language:
                x = torch.zeros(job.batch, job.sequence, dtype=torch.long, device=cuda)
                y = torch.zeros_like(x)
            else:
                x = torch.empty(job.batch, 3, job.image, job.image, device=cuda)
                if job.channels_last:
                    x = x.to(memory_format=torch.channels_last)
                if job.precision == "pure-bf16":
                    x = x.to(torch.bfloat16)
                y = torch.zeros(job.batch, dtype=torch.long, device=cuda)
            if micro == 0:
                optimizer.zero_grad(set_to_none=True)
            last = micro + 1 == job.micro
            quiet = contextlib.nullcontext()
            if not job.sync and job.mode == "fsdp2":
                net.set_requires_gradient_sync(last)
            elif not job.sync and not last and job.mode in ("ddp", "fsdp1"):
                quiet = net.no_sync()
            autocast = half is not None and (not sharded if job.autocast is None else job.autocast)
            with quiet:
                with torch.autocast("cuda", half or torch.bfloat16, enabled=autocast):
                    out = net(x)
                    if job.model.startswith("inception"):
                        out = out.logits
                    loss = nn.functional.cross_entropy(out.view(-1, out.shape[-1]) if language else out, y.view(-1))
                del out
                mark("forward")
                loss.backward()
                IN_FLIGHT.clear()
                mark("backward")
                del loss
        if job.clip:
            if job.mode == "fsdp1":
                net.clip_grad_norm_(job.clip)
            else:
                torch.nn.utils.clip_grad_norm_(net.parameters(), job.clip)
            mark("clipping")
        optimizer.step()
        mark("optimizer")
        torch.cuda.synchronize()
    del library
    return dict(torch=torch.__version__, allocated=overall[0], reserved=overall[1], at=max(peaks)[1])


def in_child(line):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(2, 1)  # stdout is for answers, and libraries print on it
        try:
            answer = measure(json.loads(line))
        except BaseException:
            answer = dict(error=traceback.format_exc()[-1500:])
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or json.dumps(dict(error="the child ended without an answer"))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        print(in_child(line), flush=True)
