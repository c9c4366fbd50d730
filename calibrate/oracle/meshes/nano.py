"""nanotron's own Llama, loss, fp32 gradient accumulation and optimizers on the stub, per rank: ../gpu/stub.py PYTHON nano.py '{"tp": 2, "dp": 2}' ...

The output is that of memory.py. The environment needs `pip install --no-deps nanotron` (0.4) and flash-attn's Python half
(`FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE pip install --no-deps --no-build-isolation flash-attn==2.6.3`, `pip install einops`).
Genuine: LlamaForTraining, DistributedTrainer._init_model and training_step, the optimizers, flash-attn's autograd functions.
Ours: the kernels behind flash-attn and Triton, which only allocate their results; data of zeros; one stage.
  async: tp_linear_async_communication; zero: stage 0 or 1; accumulate_fp32: gradients in fp32 beside master weights
"""
import gc
import os
import sys
import types
import unittest.mock

import torch
import torch.distributed as dist
import world

DEFAULTS = dict(layers=4, hidden=2048, heads=16, kv_heads=16, ffn=5632, vocabulary=32000, sequence=1024, batch=1, micro_batches=1, tp=1, dp=1, zero=0,
                sp=True, async_linear=True, tied=False, clip=1.0, bucket_mb=25, fused=True, steps=3, rank=0)


def replace_kernels():
    """flash-attn's extension and Triton's launches: results are allocated, nothing is computed."""
    def forward(q, k, v, out, cu_q, cu_k, used, leftpad, table, slopes, longest_q, *rest):
        out = torch.empty_like(q)
        lse = torch.empty(q.shape[1], q.shape[0], dtype=torch.float, device=q.device)
        return out, q, k, v, out, lse, torch.empty(0, dtype=q.dtype, device=q.device), torch.empty(2, dtype=torch.int64, device=q.device)

    def backward(dout, q, k, v, out, lse, dq, dk, dv, cu_q, cu_k, slopes, longest_q, *rest):
        # csrc/flash_attn/flash_api.cpp, mha_varlen_bwd: softmax_d and dq_accum, padded to 128 tokens.
        samples, heads, size = cu_q.numel() - 1, q.shape[1], q.shape[2]
        padded = q.shape[0] + 128 * samples
        softmax_d = torch.empty(heads, padded, dtype=torch.float, device=q.device)
        torch.empty(padded, heads, (size + 31) // 32 * 32, dtype=torch.float, device=q.device)
        return dq, dk, dv, softmax_d

    sys.modules["flash_attn_2_cuda"] = types.SimpleNamespace(varlen_fwd=forward, varlen_bwd=backward)
    import triton
    triton.runtime.autotuner.Autotuner.run = lambda self, *a, **k: None
    triton.runtime.jit.JITFunction.run = lambda self, *a, **k: None


def measure(job):
    size = job.tp * job.dp
    os.environ.update(WORLD_SIZE=str(size), RANK=str(job.rank), LOCAL_RANK="0", CUDA_DEVICE_MAX_CONNECTIONS="1")
    replace_kernels()
    sys.modules["nanotron.logging"] = unittest.mock.MagicMock()  # its imports run in a circle in the package's 0.4
    dist.init_process_group("fake", rank=job.rank, world_size=size, store=world.FakeStore())
    group = dist.new_group
    dist.new_group = lambda *a, **k: group(*a, **{**k, "backend": "fake"})
    from nanotron import trainer
    from nanotron.config import LlamaConfig
    from nanotron.helpers import init_optimizer_and_grad_accumulator
    from nanotron.models.llama import LlamaForTraining
    from nanotron.parallel import ParallelContext
    from nanotron.parallel.pipeline_parallel.engine import OneForwardOneBackwardPipelineEngine
    from nanotron.parallel.tensor_parallel.enum import TensorParallelLinearMode
    context = ParallelContext(tensor_parallel_size=job.tp, pipeline_parallel_size=1, data_parallel_size=job.dp)
    shape = LlamaConfig(hidden_size=job.hidden, intermediate_size=job.ffn, max_position_embeddings=job.sequence, num_attention_heads=job.heads,
                        num_hidden_layers=job.layers, num_key_value_heads=job.kv_heads, tie_word_embeddings=job.tied, vocab_size=job.vocabulary)
    space = types.SimpleNamespace
    parallel = space(tp=job.tp, dp=job.dp, pp=1, tp_linear_async_communication=job.async_linear,
                     tp_mode=TensorParallelLinearMode.REDUCE_SCATTER if job.sp else TensorParallelLinearMode.ALL_REDUCE)
    schedule = space(learning_rate=1e-3)
    config = space(parallelism=parallel, model=space(dtype=torch.bfloat16, ddp_bucket_cap_mb=job.bucket_mb, model_config=shape), general=space(ignore_sanity_checks=True),
                   optimizer=space(accumulate_grad_in_fp32=True, zero_stage=job.zero, clip_grad=job.clip, weight_decay=0.01, adam_eps=1e-8, adam_beta1=0.9,
                                   adam_beta2=0.95, torch_adam_is_fused=job.fused, learning_rate_scheduler=schedule))
    own = space(config=config, parallel_context=context, model_config=shape, iteration_step=10, n_micro_batches_per_batch=job.micro_batches,
                pipeline_engine=OneForwardOneBackwardPipelineEngine(), post_train_step=lambda: None, lr_scheduler=space(step=lambda: None))
    own._mark_tied_parameters = lambda **given: trainer.DistributedTrainer._mark_tied_parameters(own, **given)
    for name in ("before_tbi_sanity_checks", "after_tbi_sanity_checks", "before_optim_step_sanity_checks", "after_optim_step_sanity_checks"):
        setattr(trainer, name, lambda *a, **k: None)
    own.model = trainer.DistributedTrainer._init_model(own, lambda: LlamaForTraining(config=shape, parallel_context=context, parallel_config=parallel, random_states=None))
    own.unwrapped_model = getattr(own.model, "module", own.model)
    own.unwrapped_model.module_id_to_prefix = {id(module): f"{name}." if name else "" for name, module in own.unwrapped_model.named_modules()}
    own.optimizer, own.grad_accumulator = init_optimizer_and_grad_accumulator(own.model, config.optimizer, context)
    gc.collect()
    torch.cuda.empty_cache()
    permanent = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    def batches():
        while True:
            whole = dict(size=(job.batch, job.sequence), device=world.CUDA)
            yield dict(input_ids=torch.zeros(dtype=torch.long, **whole), input_mask=torch.ones(dtype=torch.bool, **whole),
                       label_ids=torch.zeros(dtype=torch.long, **whole), label_mask=torch.ones(dtype=torch.bool, **whole))

    data = batches()
    for _ in range(job.steps):
        trainer.DistributedTrainer.training_step(own, data)
        torch.cuda.synchronize()
    case = {name: getattr(job, name) for name in DEFAULTS if getattr(job, name) != DEFAULTS[name] and name != "rank"}
    return [dict(case=case, rank=job.rank, torch=torch.__version__, nanotron="0.4", allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(),
                 permanent=permanent, parameters=sum(p.numel() for p in own.unwrapped_model.parameters()))]


def job_of(settings):
    unknown = set(settings) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown: {sorted(unknown)}")
    return types.SimpleNamespace(**{**DEFAULTS, **settings})


if __name__ == "__main__":
    world.Job = job_of
    sys.exit(world.answers(measure))
