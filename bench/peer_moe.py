#!/usr/bin/env python3
"""PyTorch's loop over the experts of a mixture. Times forward and backward of a language model on this GPU: `loop` with
three matrices an expert, as the OLMoE of Hugging Face's Transformers 4 has them; `stacked` with the experts' matrices in
one tensor, gate and up together; `sorted` the same over rows sorted by expert, which waits for the GPU once a block and
not once an expert; `dense` without experts, its feed-forward as wide as the active ones together. Everything between the
gathers is compiled, sizes of an expert's rows left open.

  bench/peer_moe.py                      OLMoE's blocks: d 2048, 64 experts of 1,024, 8 a token, 32,768 tokens
  bench/peer_moe.py --layers 4 --tokens 16384 --micro-batches 2 --rows loop
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F

from commands import fail


def feed_forward(x, w1, w2):
    a, b = F.linear(x, w1).chunk(2, -1)
    return F.linear(a * F.silu(b), w2)


def weighted(y, weight):
    return y * weight[:, None].to(y.dtype)


@torch.compile(dynamic=True)
def lone_expert(x, token, weight, gate, up, down):
    x = x[token]
    return weighted(F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down), weight)


@torch.compile(dynamic=True)
def stacked_expert(x, token, weight, w1, w2):
    return weighted(feed_forward(x[token], w1, w2), weight)


@torch.compile(dynamic=True)
def expert_of_rows(rows, weight, w1, w2):
    return weighted(feed_forward(rows, w1, w2), weight)


class Block(torch.nn.Module):
    """kind: loop | stacked | sorted | dense"""

    def __init__(self, a, kind):
        super().__init__()
        self.heads, self.kind, self.top_k, self.experts = a.heads, kind, a.top_k, a.experts
        self.norm_a, self.norm_f = torch.nn.RMSNorm(a.d), torch.nn.RMSNorm(a.d)
        self.qkv, self.out = torch.nn.Linear(a.d, 3 * a.d, bias=False), torch.nn.Linear(a.d, a.d, bias=False)
        empty = lambda *shape: torch.nn.Parameter(torch.empty(*shape))
        if kind == "dense":
            self.w1, self.w2 = empty(2 * a.top_k * a.width, a.d), empty(a.d, a.top_k * a.width)
            return
        self.router = torch.nn.Linear(a.d, a.experts, bias=False)
        if kind == "loop":
            for name, shape in (("gate", (a.width, a.d)), ("up", (a.width, a.d)), ("down", (a.d, a.width))):
                setattr(self, name, torch.nn.ParameterList(empty(*shape) for _ in range(a.experts)))
        else:
            self.w1, self.w2 = empty(a.experts, 2 * a.width, a.d), empty(a.experts, a.d, a.width)

    def route(self, x):
        return F.softmax(self.router(x).float(), -1).topk(self.top_k, -1)

    def matrices(self):
        # Unbound, not indexed: the gradient of an index is as large as all experts.
        return zip(self.gate, self.up, self.down) if self.kind == "loop" else zip(self.w1.unbind(0), self.w2.unbind(0))

    @torch.compiler.disable
    def mixture(self, x, weights, chosen):
        out = torch.zeros_like(x)
        if self.kind == "sorted":
            order = chosen.flatten().argsort(stable=True)
            token, counts = order // self.top_k, torch.bincount(chosen.flatten(), minlength=self.experts).tolist()
            rows = zip(x[token].split(counts), weights.flatten()[order].split(counts), self.matrices())
            return out.index_add_(0, token, torch.cat([expert_of_rows(r, w, *m) for r, w, m in rows]))
        expert = lone_expert if self.kind == "loop" else stacked_expert
        for e, m in enumerate(self.matrices()):
            token, slot = torch.where(chosen == e)
            out.index_add_(0, token, expert(x, token, weights[token, slot], *m))
        return out

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm_a(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = self.attention(x)
        h = self.norm_f(x).view(-1, x.size(-1))
        y = feed_forward(h, self.w1, self.w2) if self.kind == "dense" else self.mixture(h, *self.route(h))
        return x + y.view_as(x)


class Model(torch.nn.Module):
    def __init__(self, a, kind):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(a.vocab, a.d), torch.nn.Linear(a.d, a.vocab, bias=False)
        self.blocks = torch.nn.ModuleList(Block(a, kind) for _ in range(a.layers))
        self.norm = torch.nn.RMSNorm(a.d)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())


def run(kind, a):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model(a, kind)
        tokens = torch.randint(a.vocab, (a.tokens // a.length, a.length)).chunk(a.micro_batches)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.02)
    step = torch.compile(model)
    start, ms = time.time(), []
    for i in range(a.warm + a.steps):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for part in tokens:
            (step(part) / a.micro_batches).backward()
        end.record()
        torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        if i + 1 == a.warm:
            warm = time.time() - start
        if i >= a.warm:
            ms.append(begin.elapsed_time(end))
    ms.sort()
    row = dict(peer=kind, layers=a.layers, tokens=a.tokens, micro_batches=a.micro_batches,
               ms=round(ms[len(ms) // 2], 2), ms_min=round(ms[0], 2), ms_max=round(ms[-1], 2),
               warm_s=round(warm, 1), torch=torch.__version__, device=torch.cuda.get_device_name(),
               peak_gb=round(torch.cuda.max_memory_allocated() / 2**30, 1))
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(d=2048, heads=16, layers=8, vocab=50304, experts=64, top_k=8, width=1024, tokens=32768, length=2048,
                 micro_batches=1, warm=3, steps=7)
    for key, default in sizes.items():
        p.add_argument("--" + key.replace("_", "-"), type=int, default=default, help="default: %(default)s")
    p.add_argument("--rows", default="loop,stacked,sorted,dense", help="which of them (default: %(default)s)")
    a = p.parse_args()
    if not torch.cuda.is_available():
        fail("there is no GPU here")
    for kind in a.rows.split(","):
        run(kind, a)
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
