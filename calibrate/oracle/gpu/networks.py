"""Networks as people write them in PyTorch: nanoGPT's, Llama's, torchvision's.

Only sizes matter: nothing is initialized.
"""
import torch
from torch import nn

GPTS = {"gpt2": (12, 768, 12), "gpt2-medium": (24, 1024, 16), "gpt2-large": (36, 1280, 20), "gpt2-xl": (48, 1600, 25)}
LLAMAS = {"llama3-8b": (32, 4096, 32, 8, 14336, 128256), "llama2-7b": (32, 4096, 32, 32, 11008, 32000),
          "llama3.2-1b": (16, 2048, 32, 8, 8192, 128256), "mistral-7b": (32, 4096, 32, 8, 14336, 32000)}
TIED = {"llama3.2-1b"}


def is_language(name):
    return name in GPTS or name in LLAMAS


def checkpointed(block, use, *arguments):
    if not use:
        return block(*arguments)
    from torch.utils.checkpoint import checkpoint
    return checkpoint(block, *arguments, use_reentrant=False)


class GptAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(hidden, 3 * hidden)
        self.c_proj = nn.Linear(hidden, hidden)
        self.resid_dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in self.c_attn(x).split(hidden, 2))
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).contiguous().view(batch, tokens, hidden)))


class GptMlp(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.c_fc = nn.Linear(hidden, 4 * hidden)
        self.act = nn.GELU()
        self.c_proj = nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GptBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden)
        self.attn = GptAttention(hidden, heads)
        self.ln_2 = nn.LayerNorm(hidden)
        self.mlp = GptMlp(hidden)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, heads, checkpointing, longest, vocabulary=50257):
        super().__init__()
        self.checkpointing = checkpointing
        self.wte = nn.Embedding(vocabulary, hidden)
        self.wpe = nn.Embedding(longest, hidden)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(GptBlock(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, x):
        x = self.drop(self.wte(x) + self.wpe(torch.arange(x.shape[1], device=x.device)))
        for block in self.h:
            x = checkpointed(block, self.checkpointing, x)
        return self.lm_head(self.ln_f(x))


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        kind = x.dtype
        x = x.float()
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * x.to(kind)


def rotated(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class LlamaAttention(nn.Module):
    def __init__(self, hidden, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * size, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * size, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, hidden = x.shape
        heads = ((self.q_proj, self.heads), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads))
        q, k, v = (project(x).view(batch, tokens, count, -1).transpose(1, 2) for project, count in heads)
        q = q * cos + rotated(q) * sin
        k = k * cos + rotated(k) * sin
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, tokens, hidden))


class LlamaMlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, inner):
        super().__init__()
        self.input_layernorm = RmsNorm(hidden)
        self.self_attn = LlamaAttention(hidden, heads, kv_heads)
        self.post_attention_layernorm = RmsNorm(hidden)
        self.mlp = LlamaMlp(hidden, inner)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, inner, vocabulary, checkpointing, tied):
        super().__init__()
        self.checkpointing, self.size = checkpointing, hidden // heads
        self.embed_tokens = nn.Embedding(vocabulary, hidden)
        self.layers = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, inner) for _ in range(layers))
        self.norm = RmsNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocabulary, bias=False)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(self, x):
        tokens = x.shape[1]
        x = self.embed_tokens(x)
        cos = torch.ones(1, 1, tokens, self.size, dtype=x.dtype, device=x.device)
        sin = cos.clone()
        for block in self.layers:
            x = checkpointed(block, self.checkpointing, x, cos, sin)
        return self.lm_head(self.norm(x))


def build(name, layers, checkpointing, sequence):
    """Builds a network; `layers`: None = all layers."""
    if name in GPTS:
        shape = GPTS[name]
        return Gpt(layers or shape[0], *shape[1:], checkpointing, max(1024, sequence))
    if name in LLAMAS:
        shape = LLAMAS[name]
        return Llama(layers or shape[0], *shape[1:], checkpointing, name in TIED)
    import torchvision
    return getattr(torchvision.models, name)()


def blocks(model):
    return [*(model.h if isinstance(model, Gpt) else model.layers)]
