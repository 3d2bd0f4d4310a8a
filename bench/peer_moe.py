#!/usr/bin/env python3
"""What a PyTorch user would write for a mixture: a loop over the experts, compiled. Times forward and backward of a
language model's blocks on this GPU, and a dense model whose feed-forward is as wide as the active experts together.

  bench/peer_moe.py                      OLMoE's block: d 2048, 64 experts of 1,024, 8 a token, 16,384 tokens
  bench/peer_moe.py --layers 4 --tokens 32768
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, d, heads, width, experts, top_k):
        super().__init__()
        self.heads, self.experts, self.top_k = heads, experts, top_k
        self.norm_a, self.norm_f = torch.nn.RMSNorm(d), torch.nn.RMSNorm(d)
        self.qkv, self.out = torch.nn.Linear(d, 3 * d, bias=False), torch.nn.Linear(d, d, bias=False)
        if experts:
            self.router = torch.nn.Linear(d, experts, bias=False)
            self.w1 = torch.nn.Parameter(torch.randn(experts, 2 * width, d) * d**-0.5)
            self.w2 = torch.nn.Parameter(torch.randn(experts, d, width) * width**-0.5)
        else:
            self.w1 = torch.nn.Parameter(torch.randn(2 * width, d) * d**-0.5)
            self.w2 = torch.nn.Parameter(torch.randn(d, width) * width**-0.5)

    @staticmethod
    def feed_forward(x, w1, w2):
        a, b = F.linear(x, w1).chunk(2, -1)
        return F.linear(a * F.silu(b), w2)

    def mixture(self, x):
        scores = F.softmax(self.router(x).float(), -1)
        weights, chosen = scores.topk(self.top_k, -1)
        out = torch.zeros_like(x)
        for e in range(self.experts):
            token, slot = torch.where(chosen == e)
            y = self.feed_forward(x[token], self.w1[e], self.w2[e])
            out.index_add_(0, token, y * weights[token, slot, None].to(y.dtype))
        return out

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm_a(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        h = self.norm_f(x).view(-1, d)
        return x + (self.mixture(h) if self.experts else self.feed_forward(h, self.w1, self.w2)).view(b, t, d)


def run(name, a, experts, width, compiled):
    torch.manual_seed(0)
    blocks = torch.nn.Sequential(*[Block(a.d, a.heads, width, experts, a.top_k) for _ in range(a.layers)])
    blocks = blocks.cuda().to(torch.bfloat16)
    step = torch.compile(blocks) if compiled else blocks
    x = torch.randn(a.tokens // a.length, a.length, a.d, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    g = torch.randn_like(x)
    start, ms = time.time(), []
    for i in range(a.warm + a.steps):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        step(x).backward(g)
        end.record()
        torch.cuda.synchronize()
        blocks.zero_grad(set_to_none=True)
        if i + 1 == a.warm:
            warm = time.time() - start
        if i >= a.warm:
            ms.append(begin.elapsed_time(end))
    ms.sort()
    print(json.dumps(dict(peer=name, compiled=compiled, layers=a.layers, tokens=a.tokens, ms=round(ms[len(ms) // 2], 2),
                          ms_min=round(ms[0], 2), ms_max=round(ms[-1], 2), warm_s=round(warm, 1),
                          peak_gb=round(torch.cuda.max_memory_allocated() / 2**30, 1))), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for key, default in dict(d=2048, heads=16, layers=2, experts=64, top_k=8, width=1024, tokens=16384, length=2048, warm=3, steps=8).items():
        p.add_argument("--" + key.replace("_", "-"), type=int, default=default)
    p.add_argument("--eager", action="store_true")
    a = p.parse_args()
    run("dense", a, 0, a.top_k * a.width, not a.eager)
    run("loop", a, a.experts, a.width, not a.eager)
