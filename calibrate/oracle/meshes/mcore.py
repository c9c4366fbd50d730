"""Megatron-core's own layers, schedules, DDP and distributed optimizer on the stub, per rank.

    ../gpu/stub.py PYTHON mcore.py '{"tp": 2, "sp": true, "pp": 2}' ...

Prints memory as memory.py does, or with "order": true the events of order.py. The environment needs
`pip install --no-deps megatron-core` (0.16.1 with Python 3.11).
Genuine: GPTModel from its local spec, get_forward_backward_func, DistributedDataParallel, the distributed optimizer.
The local spec has no Transformer Engine, no Apex and no fused kernels: context parallelism is impossible, and attention
materializes its scores. Ours: layer norms by torch.nn.LayerNorm (Megatron's own layer norm refuses sequence parallelism
without Apex), and data of zeros.
  gpt: learned positions, tied head, biases, dropout, softmax in bf16 (as its fused kernel saves); without it rotary
       positions, untied head, no biases and no dropout, softmax in fp32
  dp > 1 or "distributed": true: its DDP (fp32 gradient buffers) and mixed precision optimizer
  "zero": true: the distributed optimizer; "overlap": reductions beside backward
"""
import gc
import sys
import types

import order
import torch
import torch.distributed as dist
import world

DEFAULTS = dict(layers=4, hidden=2048, heads=16, kv_heads=16, ffn=5632, vocabulary=32000, sequence=1024, batch=1, micro_batches=4, tp=1, sp=False, pp=1, chunks=1, dp=1,
                distributed=False, zero=False, overlap=False, gpt=False, recompute=None, overlap_p2p=False, steps=3, rank=0, order=False)


def norm_of(kind, config, hidden_size, eps=1e-5, **options):
    norm = torch.nn.LayerNorm(hidden_size, eps=eps, dtype=config.params_dtype, device=world.CUDA)
    for parameter in norm.parameters():
        parameter.sequence_parallel = config.sequence_parallel
    return norm


def measure(job):
    size = job.tp * job.pp * job.dp
    dist.init_process_group("fake", rank=job.rank, world_size=size, store=world.FakeStore())
    group = dist.new_group
    dist.new_group = lambda *a, **k: group(*a, **{**k, "backend": "fake"})  # its gloo groups, too
    from megatron.core import __version__ as version, parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer import torch_norm
    from megatron.core.transformer.transformer_config import TransformerConfig
    torch_norm.WrappedTorchNorm.__new__ = norm_of
    virtual = job.chunks if job.chunks > 1 else None
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=job.tp, pipeline_model_parallel_size=job.pp,
                                             virtual_pipeline_model_parallel_size=virtual)
    model_parallel_cuda_manual_seed(1)
    options = {} if job.recompute is None else dict(recompute_granularity=job.recompute, **(dict(recompute_method="uniform", recompute_num_layers=1) if job.recompute == "full" else {}))
    config = TransformerConfig(num_layers=job.layers, hidden_size=job.hidden, num_attention_heads=job.heads, num_query_groups=job.kv_heads, ffn_hidden_size=job.ffn,
                               tensor_model_parallel_size=job.tp, pipeline_model_parallel_size=job.pp, virtual_pipeline_model_parallel_size=virtual,
                               sequence_parallel=job.sp, bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
                               hidden_dropout=0.1 * job.gpt, attention_dropout=0.1 * job.gpt, masked_softmax_fusion=False, attention_softmax_in_fp32=not job.gpt,
                               perform_initialization=False, gradient_accumulation_fusion=False, add_bias_linear=job.gpt, batch_p2p_comm=not job.overlap_p2p,
                               overlap_p2p_comm=job.overlap_p2p, deallocate_pipeline_outputs=True, **options)
    ends = [(parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=i) if virtual else parallel_state.is_pipeline_first_stage(),
             parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=i) if virtual else parallel_state.is_pipeline_last_stage()) for i in range(job.chunks)]
    models = [GPTModel(config, get_gpt_layer_local_spec(), vocab_size=job.vocabulary, max_sequence_length=job.sequence, pre_process=first, post_process=last,
                       share_embeddings_and_output_weights=job.gpt, position_embedding_type="learned_absolute" if job.gpt else "rope",
                       **(dict(vp_stage=i) if virtual else {})).cuda() for i, (first, last) in enumerate(ends)]
    plain = models
    if job.dp > 1 or job.distributed or job.zero:
        from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
        settings = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=job.overlap, use_distributed_optimizer=job.zero, bucket_size=40_000_000 if job.overlap else None)
        models = [DistributedDataParallel(config, settings, model, disable_bucketing=i > 0) for i, model in enumerate(models)]
        optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.01, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=job.zero, clip_grad=1.0), models)
        config.finalize_model_grads_func, config.grad_scale_func = finalize_model_grads, optimizer.scale_loss
        if job.overlap:
            config.no_sync_func = [model.no_sync for model in models] if virtual else models[0].no_sync
    else:
        optimizer = torch.optim.AdamW([p for model in models for p in model.parameters()], lr=0.01)
    schedule = get_forward_backward_func()

    def forward(data, model):
        ids = torch.zeros(job.batch, job.sequence, dtype=torch.long, device=world.CUDA)
        mask = torch.ones(1, 1, job.sequence, job.sequence, dtype=torch.bool, device=world.CUDA)
        return model(ids, torch.zeros_like(ids), mask, labels=ids), lambda out: (out.float().mean(), {})

    log = None
    if job.order:
        groups = {}
        for name, get in (("tp", parallel_state.get_tensor_model_parallel_group), ("pp", parallel_state.get_pipeline_model_parallel_group),
                          ("dp", parallel_state.get_data_parallel_group)):
            groups.setdefault(tuple(dist.get_process_group_ranks(get())), name)
        log = order.Recorder(groups, order.Modules(plain))
        record_p2p(log)
    gc.collect()
    torch.cuda.empty_cache()
    permanent = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for step in range(2 if log else job.steps):
        with log or world.contextlib.nullcontext():
            if log:
                log.on, log.phase = step == 1, "schedule"
                log.modules.edges.clear()
                log.modules.names.clear()
            for model in models:
                if hasattr(model, "zero_grad_buffer"):
                    model.zero_grad_buffer()
            optimizer.zero_grad()
            schedule(forward_step_func=forward, data_iterator=[iter([0] * 1000) for _ in models] if virtual else iter([0] * 1000), model=models if virtual else models[:1],
                     num_microbatches=job.micro_batches, seq_length=job.sequence, micro_batch_size=job.batch, forward_only=False)
            if log:
                log.phase = "optimizer"
            optimizer.step()
        torch.cuda.synchronize()
    case = {name: getattr(job, name) for name in DEFAULTS if getattr(job, name) != DEFAULTS[name] and name not in ("rank", "order")}
    if log:
        return [dict(case=case, rank=job.rank, torch=torch.__version__, megatron_core=version, events=len(log.events)), *log.events]
    return [dict(case=case, rank=job.rank, torch=torch.__version__, megatron_core=version, allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(),
                 permanent=permanent, parameters=sum(p.numel() for model in plain for p in model.parameters()))]


def record_p2p(log):
    """Records sends and receives where Megatron launches them, and the host's wait for the whole device after them."""
    real = dist.batch_isend_irecv

    def batch(ops):
        for op in ops:
            log.say(do="send" if op.op is dist.isend else "recv", group="pp", peer=op.peer, bytes=order.size(op.tensor), type=order.kind_of(op.tensor), together=len(ops))
        return real(ops)
    dist.batch_isend_irecv = batch
    wait = torch.cuda.synchronize

    def synchronized(*a, **k):
        log.say(do="host waits for the device")
        return wait(*a, **k)
    torch.cuda.synchronize = synchronized


def job_of(settings):
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown: {sorted(unknown)}")
    return types.SimpleNamespace(**{**DEFAULTS, **settings})


if __name__ == "__main__":
    world.Job = job_of
    sys.exit(world.answers(measure))
