#!/usr/bin/env python3
"""Records the traces of transformers in this folder: record_traces.py (needs torch, torchvision, transformers).

Each trace has three steps on one CPU thread, of a network that is as small as possible; trim_trace.py then shortens it.
"""
import pathlib
import subprocess
import sys
import tempfile

import torch
import torchvision
import transformers
from torch.profiler import ProfilerActivity, profile, record_function, schedule

HERE = pathlib.Path(__file__).parent


def vit():
    model = torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4,
                                                 hidden_dim=64, mlp_dim=256, num_classes=10)
    images, labels = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
    return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)


def hugging_face_vit():
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, intermediate_size=256, image_size=32,
        patch_size=8, num_labels=10)).train()
    images, labels = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
    return model, lambda: model(pixel_values=images, labels=labels).loss


def gpt2(attention):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=512, n_positions=64, attn_implementation=attention)).train()
    tokens = torch.randint(0, 512, (64, 64))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


def llama():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
        vocab_size=512, max_position_embeddings=64)).train()
    tokens = torch.randint(0, 512, (64, 64))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


def record(name, network, marks):
    """Records one trace; `marks`: with ProfilerStep#N, otherwise with own annotations around forward and backward."""
    torch.manual_seed(0)
    model, loss = network()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    plan = schedule(wait=0, warmup=2, active=3, repeat=1) if marks else None
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json.gz"
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan) as profiler:
            for step in range(5 if marks else 3):
                with record_function(f"training step {step}"):
                    optimizer.zero_grad()
                    loss().backward()
                    optimizer.step()
                if marks:
                    profiler.step()
        profiler.export_chrome_trace(path)
        subprocess.run([sys.executable, HERE / "trim_trace.py", path, HERE / f"{name}.json.gz", "--about",
                        f"recorded by record_traces.py with torch {torch.__version__} on a CPU"], check=True)


torch.set_num_threads(1)
record("vit_cpu", vit, marks=True)
record("hugging_face_vit_cpu", hugging_face_vit, marks=True)
record("gpt2_cpu", lambda: gpt2("sdpa"), marks=True)
record("gpt2_eager_cpu", lambda: gpt2("eager"), marks=False)
record("llama_cpu", llama, marks=True)
