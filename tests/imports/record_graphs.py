#!/usr/bin/env python3
"""Records the graphs of shipped models that torchvision has: record_graphs.py [--onnx] FOLDER [MODEL...].

Without MODEL it records all models in models/ that torchvision has, except Swin, whose windows an import does not
support, and small transformers of Hugging Face. It needs torch, torchvision and transformers. With --onnx it writes
torch.onnx's files without weights, and also needs onnx and onnxscript.
"""
import gzip
import json
import pathlib
import sys

import torch
import torchvision

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "sim/python"))
from lockstep.imports import torch_graph  # noqa: E402

SIZES = {"inception_v3": 299}



def write_onnx(module, inputs, path):
    """Exports in training mode and without folding, so that batch norms stay. Data of more than 64 numbers and stack traces are removed."""
    import onnx

    torch.onnx.export(module.train(), (inputs,), path, dynamo=True, external_data=False, verbose=False,
                      optimize=False)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if len(tensor.raw_data) > 256:
            tensor.ClearField("raw_data")
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == "pkg.torch.onnx.name_scopes"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.doc_string = ""
    for value in model.graph.value_info:
        del value.metadata_props[:]
    onnx.save(model, path)


def write_record(module, inputs, named, path, title):
    record = torch_graph.described(module, inputs, named, title)
    path.write_bytes(gzip.compress(json.dumps(record).encode(), mtime=0))


def hugging_face():
    """The networks of the files small_*.yaml in tests/imports/data, with both ways to compute attention."""
    import transformers as hf

    tokens = torch.zeros(2, 64, dtype=torch.long)
    small = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 64, "use_cache": False}
    for way in "sdpa", "eager":
        yield f"small_gpt2.{way}", hf.GPT2LMHeadModel(hf.GPT2Config(attn_implementation=way, **small)), tokens
    yield "small_llama", hf.LlamaForCausalLM(hf.LlamaConfig(
        num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
        vocab_size=512, max_position_embeddings=64, use_cache=False)), tokens


as_onnx = sys.argv[1] == "--onnx"
words = sys.argv[2:] if as_onnx else sys.argv[1:]
folder, names = pathlib.Path(words[0]), words[1:]
folder.mkdir(parents=True, exist_ok=True)
shipped = {path.stem for path in (ROOT / "models").glob("*.yaml") if not path.stem.startswith("swin")}
for name in names or sorted(shipped & set(torchvision.models.list_models())):
    size = SIZES.get(name, 224)
    module = torchvision.models.get_model(name, weights=None)
    images = torch.zeros(2, 3, size, size)
    if as_onnx:
        write_onnx(module, images, str(folder / f"{name}.onnx"))
    else:
        write_record(module, (images,), {}, folder / f"{name}.json.gz", name)
    print(name, flush=True)
for name, module, tokens in () if names or as_onnx else hugging_face():
    write_record(module, (), {"input_ids": tokens}, folder / f"{name}.json.gz", name)
