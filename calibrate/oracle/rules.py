"""One rule per operator of docs/model-format.md: rule(leaf, inputs, target) -> output.

The rules make the PyTorch calls of calibrate/torch/real_network.cpp; `leaf` is a network.Leaf.
"""

import math

import torch
import torch.nn.functional as F


def conv(leaf, inputs, _):
    return F.conv2d(
        inputs[0],
        leaf.tensor(0),
        leaf.tensor(1),
        stride=leaf.get("stride", 1),
        padding=(leaf.get("padding_h"), leaf.get("padding_w")),
        dilation=leaf.get("dilation", 1),
        groups=leaf.get("groups", 1),
    )


def batch_norm(leaf, inputs, _):
    node = leaf.buffers
    node.num_batches_tracked.add_(1)
    return F.batch_norm(
        inputs[0],
        node.running_mean,
        node.running_var,
        leaf.tensor(0),
        leaf.tensor(1),
        True,
        0.1,
        1e-5,
    )


def rms_norm(leaf, inputs, _):
    wide = inputs[0].float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (wide * scale).to(inputs[0].dtype) * leaf.tensor(0)


def pool(function):
    def rule(leaf, inputs, _):
        return function(
            inputs[0],
            leaf.get("kernel"),
            leaf.get("stride"),
            leaf.get("padding"),
            ceil_mode=bool(leaf.get("ceil_mode")),
        )

    return rule


def activation(function):
    def rule(leaf, inputs, _):
        return function(inputs[0], inplace=True) if leaf.get("inplace") else function(inputs[0])

    return rule


def stochastic_depth(leaf, inputs, _):
    x = inputs[0]
    keep = 1 - leaf.get("p") / 1e6
    noise = torch.empty((x.size(0),) + (1,) * (x.dim() - 1), dtype=x.dtype).bernoulli_(keep)
    return x * (noise.div_(keep) if keep > 0 else noise)


def add(leaf, inputs, _):
    total = inputs[0] if leaf.get("inplace") else inputs[0] + inputs[1]
    for x in inputs[1 if leaf.get("inplace") else 2 :]:
        total = total.add_(x)
    return total


def position_embedding(leaf, inputs, _):
    tokens = inputs[0].size(1)
    if not leaf.get("lookup", 1):
        return inputs[0] + leaf.tensor(0)[:, :tokens]
    return inputs[0] + F.embedding(torch.arange(tokens), leaf.tensor(0))


def class_token(leaf, inputs, _):
    return torch.cat([leaf.tensor(0).expand(inputs[0].size(0), -1, -1), inputs[0]], 1)


def rotary(leaf, inputs, _):
    samples, tokens, features = inputs[0].shape
    heads = leaf.get("heads")
    size = features // heads
    rates = torch.pow(10000.0, torch.arange(0, size, 2).float() / -size)
    angles = torch.outer(torch.arange(tokens).float(), rates).repeat(1, 2)
    x = inputs[0].view(samples, tokens, heads, size)
    swapped = torch.cat([-x[..., size // 2 :], x[..., : size // 2]], -1)
    return (x * angles.cos().unsqueeze(1) + swapped * angles.sin().unsqueeze(1)).reshape(
        inputs[0].shape
    )


def attention(leaf, inputs, _):
    if leaf.get("alibi"):
        raise NotImplementedError("attention with alibi")
    heads = leaf.get("heads")
    kv_heads = leaf.get("kv_heads", heads)
    samples, tokens = inputs[0].shape[:2]
    if len(inputs) == 1:
        size = inputs[0].size(2) // (heads + 2 * kv_heads)
        inputs = inputs[0].split([heads * size, kv_heads * size, kv_heads * size], -1)

    def split(x, count):
        y = x.reshape(samples, tokens, count, x.size(2) // count).transpose(1, 2)
        return y if count == heads else y.repeat_interleave(heads // count, 1)

    q, k, v = split(inputs[0], heads), split(inputs[1], kv_heads), split(inputs[2], kv_heads)
    dropout = 0.1 if leaf.get("dropout") else 0.0
    if leaf.get("fused", 1):
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=bool(leaf.get("causal"))
        )
    else:
        scores = torch.matmul(q, k.transpose(-2, -1)) * (1 / math.sqrt(q.size(-1)))
        if leaf.get("causal"):
            scores = scores.masked_fill(
                torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -math.inf
            )
        weights = (
            F.dropout(torch.softmax(scores, -1), dropout) if dropout else torch.softmax(scores, -1)
        )
        y = torch.matmul(weights, v)
    return y.transpose(1, 2).reshape(samples, tokens, -1)


def cross_entropy(leaf, inputs, target):
    return F.cross_entropy(inputs[0].reshape(-1, inputs[0].size(-1)).float(), target.reshape(-1))


RULES = {
    "conv": conv,
    "linear": lambda leaf, x, _: F.linear(x[0], leaf.tensor(0), leaf.tensor(1)),
    "batch_norm": batch_norm,
    "layer_norm": lambda leaf, x, _: F.layer_norm(
        x[0], x[0].shape[-1:], leaf.tensor(0), leaf.tensor(1)
    ),
    "rms_norm": rms_norm,
    "group_norm": lambda leaf, x, _: F.group_norm(
        x[0], leaf.get("groups"), leaf.tensor(0), leaf.tensor(1)
    ),
    "layer_scale": lambda leaf, x, _: x[0] * leaf.tensor(0),
    "relu": activation(F.relu),
    "relu6": activation(F.relu6),
    "leaky_relu": activation(F.leaky_relu),
    "silu": activation(F.silu),
    "hardswish": activation(F.hardswish),
    "hardsigmoid": activation(F.hardsigmoid),
    "sigmoid": lambda leaf, x, _: x[0].sigmoid_() if leaf.get("inplace") else x[0].sigmoid(),
    "tanh": lambda leaf, x, _: x[0].tanh_() if leaf.get("inplace") else x[0].tanh(),
    "gelu": lambda leaf, x, _: F.gelu(x[0]),
    "dropout": lambda leaf, x, _: F.dropout(x[0], leaf.get("p") / 1e6),
    "stochastic_depth": stochastic_depth,
    "add": add,
    "multiply": lambda leaf, x, _: x[0] * x[1],
    "concat": lambda leaf, x, _: torch.cat(x, 1 if x[0].dim() == 4 else -1),
    "max_pool": pool(F.max_pool2d),
    "avg_pool": pool(F.avg_pool2d),
    "adaptive_avg_pool": lambda leaf, x, _: F.adaptive_avg_pool2d(x[0], leaf.get("out", 1)),
    "flatten": lambda leaf, x, _: torch.flatten(x[0], 1),
    "permute": lambda leaf, x, _: (
        x[0].permute(0, 2, 3, 1) if leaf.get("channels_last") else x[0].permute(0, 3, 1, 2)
    ),
    "to_tokens": lambda leaf, x, _: x[0].flatten(2).transpose(1, 2),
    "embedding": lambda leaf, x, _: F.embedding(x[0], leaf.tensor(0)),
    "position_embedding": position_embedding,
    "class_token": class_token,
    "select_token": lambda leaf, x, _: x[0][:, 0],
    "attention": attention,
    "rotary": rotary,
    "cross_entropy": cross_entropy,
}
