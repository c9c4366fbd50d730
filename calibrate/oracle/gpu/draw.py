#!/usr/bin/env python3
"""Draws jobs for compare.py: combinations of options that PyTorch accepts, of odd sizes.

    draw.py COUNT SEED      a case a line
"""
import json
import random
import sys

VISION = ("alexnet", "vgg11", "vgg13", "vgg16_bn", "resnet18", "resnet34", "resnet101", "resnext50_32x4d", "wide_resnet50_2", "densenet121",
          "densenet161", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b1", "efficientnet_b3", "efficientnet_v2_s", "convnext_tiny",
          "convnext_small", "regnet_y_800mf", "regnet_x_3_2gf", "vit_b_16", "vit_b_32", "vit_l_16", "swin_t", "swin_s")
WITHOUT_NORMS = ("alexnet", "vgg11", "vgg13", "convnext", "vit", "swin")  # without batch norms
SQUARE = ("vit", "swin")  # of one size of image, or padded
GPTS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
LLAMAS = ("llama2-7b", "llama3-8b", "llama3.2-1b", "mistral-7b")
TIED = (*GPTS, "llama3.2-1b")


def draw(random):
    def maybe(chance, **options):
        if random.random() < chance:
            job.update(options)

    language = random.random() < 0.55
    name = random.choice(GPTS + LLAMAS if language else VISION)
    job = {"model": name, "mode": random.choice(("single", "ddp", "ddp", "fsdp1", "fsdp1", "fsdp2", "fsdp2", "zero"))}
    mode, half = job["mode"], random.choice((None, None, "amp-bf16", "amp-bf16", "amp-fp16", "pure-bf16"))
    sharded = mode.startswith("fsdp")
    batch_norm = not language and not name.startswith(WITHOUT_NORMS)
    if mode == "fsdp2" and batch_norm and half in ("amp-bf16", "amp-fp16"):  # PyTorch refuses it
        half = "pure-bf16"
    if half:
        job["precision"] = half
    if language:
        job["batch"] = random.randint(1, 5)
        job["sequence"] = random.choice((96, 160, 333, 384, 500, 640, 1000, 1024))
        job["layers"] = random.randint(2, 7) if name in LLAMAS else random.randint(5, 12)
        maybe(0.3, ckpt=True)
    else:
        job["batch"] = random.randint(2, 37)
        if not name.startswith(SQUARE):
            job["image"] = random.choice((160, 192, 224, 239, 256))
        maybe(0.2 if mode != "fsdp2" else 0, channels_last=True)
    job["world"] = random.choice((2, 3, 4, 6, 8, 24)) if mode != "single" else 1
    job["optimizer"] = random.choice(("sgd", "sgd", "adam", "adamw", "adamw", "rmsprop"))
    maybe(0.3, weight_decay=0.01)
    if job["optimizer"] in ("sgd", "rmsprop"):
        maybe(0.3, momentum=0)
    kind = random.random()
    if kind < 0.25:
        job["foreach"] = False
    elif kind < 0.5 and job["optimizer"] != "rmsprop":
        job["fused"] = True
    maybe(0.3, clip=1.0)
    if random.random() < 0.35:
        job["micro"] = random.randint(2, 4)
        maybe(0.5, sync=False)
    if mode == "ddp":
        maybe(0.3, view=True)
        maybe(0.3, bucket_mb=random.choice((3, 13, 60, 150)))
        maybe(0.15, find_unused=True)
        maybe(0.25, hook="bf16-compress" if half in ("amp-bf16", "pure-bf16") else "fp16-compress")
    if mode == "fsdp1":
        maybe(0.3, sharding=random.choice(("shard_grad_op", "no_shard")))
        maybe(0.3, prefetch=random.choice(("post", "none")))
        maybe(0.2, limit=False)
        maybe(0.25, fwd=True)
        maybe(0.3, use_orig=True)
        if half == "amp-bf16":
            maybe(0.5, autocast=True)
        if name not in TIED and not job.get("channels_last"):
            maybe(0.35, wrap_size=random.choice((1, 3, 11, 30)) * 10**6)
    if mode == "fsdp2":
        maybe(0.3, reshard=False, sharding="shard_grad_op")
        if half == "amp-bf16":
            maybe(0.4, reduce=4)
    if sharded and job["world"] % 2 == 0 and "sharding" not in job:
        maybe(0.2, group=2, **({"sharding": "hybrid_shard"} if mode == "fsdp1" else {}))
    if sharded and "group" not in job and "sharding" not in job and job.get("sync", True):
        maybe(0.15, offload=True, fused=None)
    return {key: value for key, value in job.items() if value is not None}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        print(json.dumps(draw(source)))
