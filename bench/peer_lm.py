#!/usr/bin/env python3
"""The product's language model in eager PyTorch, as a user would write it: times one training step on the CPU.

  peer_lm.py --schemes pre siamese --steps 10     one JSON line a scheme
"""
import argparse
import json
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        h = x.float()
        return self.gain * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


class Layer(nn.Module):
    """One block; `scheme` decides how the streams are read and written."""

    def __init__(self, index, d, heads, hidden, scheme):
        super().__init__()
        self.heads, self.scheme, self.c = heads, scheme, math.sqrt(2 * (index + 1))
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, hidden, bias=False), nn.Linear(hidden // 2, d, bias=False)
        sites = {"pre": ["norm"], "siamese": ["x", "y", "read"]}[scheme]
        self.norms = nn.ModuleDict({part + name: RMSNorm(d) for part in ("attn_", "ff_") for name in sites})

    def attention(self, h, cos, sin):
        B, T, d = h.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        rotate = lambda t: t * cos + torch.cat((-t[..., t.size(-1) // 2:], t[..., : t.size(-1) // 2]), -1) * sin
        a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return self.out(a.transpose(1, 2).reshape(B, T, d))

    def feed_forward(self, h):
        value, gate = self.up(h).chunk(2, -1)
        return self.down(value * F.silu(gate))

    def forward(self, x, y, cos, sin):
        for part, f in (("attn_", lambda h: self.attention(h, cos, sin)), ("ff_", self.feed_forward)):
            if self.scheme == "pre":
                x = x + f(self.norms[part + "norm"](x))
            else:
                x = self.norms[part + "x"](x)
                r = f(self.norms[part + "read"](x + self.norms[part + "y"](y)))
                x, y = x + r / self.c, y + r
        return x, y


class Model(nn.Module):
    def __init__(self, d, layers, heads, hidden, vocab, length, scheme, theta=10000.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Layer(i, d, heads, hidden, scheme) for i in range(layers))
        self.ends = nn.ModuleList(RMSNorm(d) for _ in range(1 if scheme == "pre" else 3))
        angle = torch.outer(torch.arange(length).float(), theta ** (-torch.arange(0, d // heads, 2) / (d // heads)))
        self.register_buffer("cos", torch.cat((angle, angle), -1).cos())
        self.register_buffer("sin", torch.cat((angle, angle), -1).sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.trunc_normal_(p, std=1 / math.sqrt(d))

    def forward(self, ids):
        x = y = self.embedding(ids[:, :-1])
        for layer in self.layers:
            x, y = layer(x, y, self.cos, self.sin)
        h = self.ends[0](x) if len(self.ends) == 1 else self.ends[2](self.ends[0](x) + self.ends[1](y))
        return F.cross_entropy(F.linear(h, self.embedding.weight).flatten(0, 1), ids[:, 1:].reshape(-1))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--schemes", nargs="+", default=["pre", "siamese"])
    ap.add_argument("--steps", type=int, default=10)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--d", type=int, default=256)
    ap.add_argument("--layers", type=int, default=6)
    ap.add_argument("--heads", type=int, default=4)
    ap.add_argument("--hidden", type=int, default=2048)
    ap.add_argument("--vocab", type=int, default=256)
    ap.add_argument("--length", type=int, default=256)
    ap.add_argument("--batch", type=int, default=8)
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    ids = torch.randint(0, a.vocab, (a.batch, a.length + 1))
    rows = []
    for scheme in a.schemes:
        model = Model(a.d, a.layers, a.heads, a.hidden, a.vocab, a.length, scheme)
        rows.append((scheme, model, torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True), []))

    def step(model, opt):
        t0 = time.perf_counter()
        model(ids).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return 1e3 * (time.perf_counter() - t0)

    for _ in range(a.rounds):
        for _, model, opt, ms in rows:
            step(model, opt)
            ms += [step(model, opt) for _ in range(a.steps)]
    for scheme, _, _, ms in rows:
        ms.sort()
        n = len(ms)
        print(json.dumps(dict(workload="lm-tiny", scheme=scheme, peer="pytorch " + torch.__version__ + " eager", ms=round(ms[n // 2], 2),
                              ms_p10=round(ms[n // 10], 2), ms_p90=round(ms[n * 9 // 10], 2), threads=a.threads)), flush=True)


if __name__ == "__main__":
    main()
