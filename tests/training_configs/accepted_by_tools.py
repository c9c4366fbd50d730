#!/usr/bin/env python3
"""Do training tools read the files of `lockstep export --emit`? accepted_by_tools.py PROGRAM runs with a Python that has
accelerate, deepspeed, transformers, trl and torchtitan 0.2 (the last version that reads TOML). A missing tool is named and skipped."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(sys.argv[1])
os.environ.setdefault("LOCKSTEP_DATA", str(ROOT))

HEAD = """name: accepted
model: llama3-8b
input: {sequence: 4096}
platform: dgx-h100
dataset: {steps: 100}
gradient_clipping: 1
batch: {micro: 1, accumulation: 2}
optimizer: {name: adamw, implementation: fused, weight_decay: 0.1}
"""
ZERO_2 = "gpus: 16\nprecision: master-bf16\nstrategies: [zero: {stage: 2, offload: {optimizer: host}}]\n"
ZERO_3 = "gpus: 16\nprecision: pure-fp16\nstrategies: [fsdp: {version: 2}]\n"
FSDP_1 = "gpus: 8\nprecision: amp-bf16\nstrategies: [fsdp: {sharding: shard_grad_op, wrap: {policy: block}}]\n"
FSDP_2 = "gpus: 16\nprecision: amp-bf16\nactivation_checkpointing: true\nparallel: {tensor: 2}\nstrategies: [fsdp: {version: 2, sharding: hybrid_shard, shard_group: 4}]\n"
TITAN = "gpus: 32\nprecision: amp-bf16\nactivation_checkpointing: true\nrecompute: operators\nparallel: {tensor: 4, pipeline: 2}\nstrategies: [fsdp: {version: 2}]\n"


def emitted(folder, scenario, form):
    source = Path(folder) / "scenario.yaml"
    source.write_text(HEAD + scenario)
    subprocess.run([PROGRAM, "export", source, "--emit", form, "-o", folder], check=True, stderr=subprocess.DEVNULL)
    names = {"deepspeed": "ds_config.json", "accelerate": "accelerate.yaml", "trainer": "training_arguments.yaml", "torchtitan": "train.toml"}
    return Path(folder) / names[form]


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found} instead of {expected}")


def accelerate(folder):
    from accelerate.commands.config.config_args import load_config_from_file

    for scenario, kind, processes in ((ZERO_2, "DEEPSPEED", 16), (FSDP_1, "FSDP", 8), (FSDP_2, "FSDP", 16)):
        config = load_config_from_file(str(emitted(folder, scenario, "accelerate")))
        equal(getattr(config.distributed_type, "value", config.distributed_type), kind)
        equal(config.num_processes, processes)


def deepspeed(folder):
    from deepspeed.runtime.config import DeepSpeedConfig

    # One GPU, because DeepSpeed counts one rank without a running job.
    for scenario, stage in ((ZERO_2, 2), (ZERO_3, 3)):
        scenario = scenario.replace("gpus: 16", "gpus: 1")
        config = DeepSpeedConfig(json.loads(emitted(folder, scenario, "deepspeed").read_text()))
        equal(config.zero_optimization_stage, stage)
        equal((config.train_batch_size, config.train_micro_batch_size_per_gpu, config.gradient_accumulation_steps), (2, 1, 2))
        equal(config.gradient_clipping, 1.0)


def trl(folder):
    import dataclasses

    import yaml
    from trl import SFTConfig

    # An SFTConfig looks for a GPU with bf16 when it is created, so only its fields are compared.
    fields = {field.name for field in dataclasses.fields(SFTConfig)}
    written = yaml.safe_load(emitted(folder, FSDP_2, "trainer").read_text())
    equal(sorted(set(written) - fields), ["model_name_or_path"])
    made = SFTConfig(output_dir=folder, **{key: value for key, value in written.items() if key in fields} | {"bf16": False, "use_cpu": True})
    equal((made.per_device_train_batch_size, made.gradient_accumulation_steps, made.max_length), (1, 2, 4096))


def torchtitan(folder):
    from torchtitan.config import ConfigManager

    config = ConfigManager().parse_args(["--job.config_file", str(emitted(folder, TITAN, "torchtitan"))])
    equal((config.model.name, config.model.flavor), ("llama3", "8B"))
    equal(config.parallelism.tensor_parallel_degree, 4)
    equal(config.training.seq_len, 4096)
    equal(config.activation_checkpoint.mode, "selective")


def main():
    failed = 0
    for check in (accelerate, deepspeed, trl, torchtitan):
        if importlib.util.find_spec(check.__name__) is None:
            print(f"{check.__name__}: not installed")
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(folder)
                print(f"{check.__name__}: accepts what is emitted")
            except Exception as error:  # a tool may raise any exception
                failed = 1
                print(f"{check.__name__}: {type(error).__name__}: {error}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
