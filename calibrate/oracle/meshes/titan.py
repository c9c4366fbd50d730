"""torchtitan's own trainer on the stub: peak memory per rank, or with "order": true the events of order.py.

    ../gpu/stub.py PYTHON titan.py '{"model": "llama3", "flavor": "8B", "layers": 4, "tp": 2, "dp": 2}' ...

Genuine: its models, its parallelization (spmd backend as the job says), its pipeline split, its loss, AdamW and
clipping. Ours: the data (zeros), no checkpoints, no compile, attention by scaled_dot_product_attention. The environment
needs `pip install torchtitan` (0.3.0 with torch 2.15).
  batch: sequences of one micro-batch; micro_batches: the pipeline's (or accumulation without a pipeline)
  checkpoint: none, full, selective; loss: chunked (its default) or plain
"""
import contextlib
import dataclasses
import gc
import json
import os
import sys
import types

import torch
import world

DEFAULTS = dict(model="llama3", flavor="8B", layers=4, sequence=4096, batch=1, micro_batches=1, tp=1, cp=1, pp=1, dp=1, replicate=1, ep=1, sp=True, schedule="1F1B",
                checkpoint="none", loss="chunked", backend=None, reshard="default", steps=3, rank=0, order=False)


class Data:
    """Stands in for its data loader and its tokenizer."""

    def __init__(self, batch, tokens):
        self.batch, self.tokens = batch, tokens

    def build(self, **options):
        return self

    def to_dict(self):
        return {}

    def __iter__(self):
        while True:
            tokens = torch.zeros(self.batch, self.tokens, dtype=torch.long)
            yield {"input": tokens, "positions": torch.arange(self.tokens).expand(self.batch, -1).contiguous()}, tokens.clone()


def trainer_of(job):
    import importlib
    count = job.replicate * job.dp * job.cp * job.tp * job.pp
    os.environ.update(RANK=str(job.rank), WORLD_SIZE=str(count), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29500", NGPU=str(count))
    package = importlib.import_module(f"torchtitan.models.{job.model}")
    registry = importlib.import_module(f"torchtitan.models.{job.model}.config_registry")
    config = next(make for name, make in vars(registry).items() if name.startswith(job.model) and callable(make))()
    options = dict(attn_backend="varlen")
    if job.ep > 1:
        options["moe_comm_backend"] = "standard"
    spec = config.model_spec = package.model_registry(job.flavor, **options)
    spec.model.layers = spec.model.layers[:job.layers]
    from torchtitan.models.common.attention import ScaledDotProductAttention
    ScaledDotProductAttention.sdpa_backends = [torch.nn.attention.SDPBackend.FLASH_ATTENTION]  # the stub has no cuDNN
    for layer in spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    per = job.batch * job.micro_batches if job.pp > 1 else job.batch
    degree = job.replicate * job.dp
    config.training = dataclasses.replace(config.training, local_batch_size=per, seq_len=job.sequence, steps=job.steps, disable_cuda_graphs=True,
                                          global_batch_size=job.batch * job.micro_batches * degree)
    changes = dict(data_parallel_shard_degree=job.dp, data_parallel_replicate_degree=job.replicate, tensor_parallel_degree=job.tp, context_parallel_degree=job.cp,
                   pipeline_parallel_degree=job.pp, expert_parallel_degree=job.ep, enable_sequence_parallel=job.sp, pipeline_parallel_schedule=job.schedule,
                   pipeline_parallel_microbatch_size=job.batch, fsdp_reshard_after_forward=job.reshard)
    if job.backend:
        changes["spmd_backend"] = job.backend
    config.parallelism = dataclasses.replace(config.parallelism, **changes)
    config.comm = dataclasses.replace(config.comm, mode="fake_backend")
    config.checkpoint = dataclasses.replace(config.checkpoint, enable=False)
    config.validator = dataclasses.replace(config.validator, enable=False)
    config.profiler = dataclasses.replace(config.profiler, enable_profiling=False)
    config.metrics = dataclasses.replace(config.metrics, enable_tensorboard=False, log_freq=10**9)
    config.debug = dataclasses.replace(config.debug, enable_structured_logging=False, moe_force_load_balance=job.ep > 1)
    config.compile = dataclasses.replace(config.compile, enable=False)
    from torchtitan.distributed import activation_checkpoint as checkpointing
    config.activation_checkpoint = {"none": None, "full": getattr(checkpointing, "FullAC", None), "selective": checkpointing.SelectiveAC}[job.checkpoint]
    if config.activation_checkpoint is not None:
        config.activation_checkpoint = config.activation_checkpoint.Config()
    plain = dataclasses.replace(config.loss.loss_fn, global_vocab_size=spec.model.vocab_size)
    config.loss = plain if job.loss == "plain" else dataclasses.replace(config.loss, loss_fn=plain)
    config.dataloader, config.tokenizer = Data(job.batch, job.sequence), Data(0, 0)
    config.dump_folder = "/dev/null"
    return config


def set_exchanged_shapes(job, config):
    """Sets the shapes that a pipeline's ranks would tell each other, and gives each rank equally many tokens for its experts."""
    from torchtitan.distributed import pipeline_parallel
    from torchtitan.models.common import token_dispatcher
    tokens, width, heads = job.sequence // job.cp, config.model_spec.model.dim, config.model_spec.model.vocab_size
    inside = torch.empty(job.batch, tokens // (job.tp if job.sp else 1), width, dtype=torch.bfloat16, device="meta", requires_grad=True)
    ids = torch.empty(job.batch, tokens, dtype=torch.long, device="meta")
    logits = torch.empty(job.batch, tokens, heads // job.tp, dtype=torch.bfloat16, device="meta", requires_grad=True)
    real = pipeline_parallel.PipelineStage

    def stage(module, index, count, device, **options):
        last = index == count - 1
        whole = inside if not last or job.loss == "chunked" else logits
        return real(module, index, count, device, input_args=(inside if index else ids,), output_args=(whole,), **options)
    pipeline_parallel.PipelineStage = stage

    def counts(self, local, remote, size):
        routed = job.batch * tokens // (job.tp if job.sp else 1) * self.top_k
        return torch.ops._c10d_functional.wait_tensor(remote).reshape(-1), [routed // size] * size, [routed // size] * size
    token_dispatcher.AllToAllTokenDispatcher._sync_token_count_exchange = counts


def measure(job):
    for name in ("trunc_normal_", "normal_", "uniform_", "zeros_", "ones_", "constant_"):
        setattr(torch.nn.init, name, lambda tensor=None, *a, **k: tensor)
    config = trainer_of(job)
    set_exchanged_shapes(job, config)
    trainer = config.build()
    if job.order:
        return order_of(job, trainer)
    gc.collect()
    torch.cuda.empty_cache()
    permanent = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    data = trainer.batch_generator(trainer.dataloader)
    for trainer.step in range(1, job.steps + 1):
        trainer.train_step(data)
        torch.cuda.synchronize()
    import torchtitan
    return [dict(case=differences(job), rank=job.rank, torch=torch.__version__, torchtitan=torchtitan.__version__, allocated=torch.cuda.max_memory_allocated(),
                 reserved=torch.cuda.max_memory_reserved(), permanent=permanent, parameters=sum(p.numel() for part in trainer.model_parts for p in part.parameters()))]


def order_of(job, trainer):
    import order
    groups = {}
    for name in ("pp", "dp_shard", "fsdp", "dp_replicate", "cp", "tp", "ep", "efsdp", "dp", "batch", "loss"):  # each backend has only some of these
        with contextlib.suppress(ValueError):
            mesh = trainer.parallel_dims.get_optional_mesh(name)
            if mesh is not None:
                groups.setdefault(tuple(torch.distributed.get_process_group_ranks(mesh.get_group())), name)
    log = order.Recorder(groups, order.Modules(trainer.model_parts))
    order.p2p(log)
    order.units(log)
    if job.pp > 1:
        order.actions(log)
    data = trainer.batch_generator(trainer.dataloader)
    for trainer.step in (1, 2):
        log.on, log.phase = trainer.step == 2, "schedule" if job.pp > 1 else "step"
        log.modules.edges.clear()
        log.modules.names.clear()
        with log:
            trainer.train_step(data)
    return [dict(case=differences(job), rank=job.rank, torch=torch.__version__, events=len(log.events)), *log.events]


def differences(job):
    return {name: getattr(job, name) for name in DEFAULTS if getattr(job, name) != DEFAULTS[name] and name not in ("rank", "order") or name in ("model", "flavor", "layers")}


def job_of(settings):
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown: {sorted(unknown)}")
    return types.SimpleNamespace(**{**DEFAULTS, **settings})


if __name__ == "__main__":
    world.Job = job_of
    sys.exit(world.answers(measure))
