#!/usr/bin/env python3
"""The product's models in PyTorch with torch.compile: times one training step on a GPU, a JSON line a row.

  peer_gpu.py lm-400m --schemes pre siamese siamese_hybrid --modes compile compile-bf16

compile: fp32 parameters under bf16 autocast; compile-bf16: bf16 parameters with fp32 master weights; eager: as compile,
uncompiled. A step is forward, backward, clipping to norm 1 and fused AdamW on random inputs that lie on the device.
"""
import argparse
import json
import math
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from commands import PEER_MODES, positive, seconds
from peer_vision import vision_workload

# d, heads, key-value heads, blocks, both halves of the feed-forward, vocabulary, length, batch
WORKLOADS = {
    "lm-400m": (1024, 16, 16, 24, 5632, 50304, 2048, 16),
    "lm-1.2b": (2048, 32, 8, 16, 16384, 100352, 4096, 4),
    "smoke": (64, 4, 2, 2, 256, 128, 32, 2),  # to try this file without a GPU
}
VISION = ("deit-s", "dit-b2", "smoke-deit", "smoke-dit")


class RMSNorm(nn.Module):
    """Statistics in fp32, rounded to the type of x, then the gain."""

    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        with torch.autocast(x.device.type, enabled=False):
            h = x.float()
            h = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)
        return self.gain * h


def rotated(t, cos, sin):
    """Rotary positions, in fp32."""
    h = t.float()
    first, second = h.chunk(2, -1)
    return (h * cos + torch.cat((-second, first), -1) * sin).to(t.dtype)


class Attention(nn.Module):
    def __init__(self, d, heads, kv_heads, normed):
        super().__init__()
        self.sizes = [heads * (d // heads)] + 2 * [kv_heads * (d // heads)]
        self.dim = d // heads
        self.qkv, self.out = nn.Linear(d, sum(self.sizes), bias=False), nn.Linear(d, d, bias=False)
        self.norms = nn.ModuleList(RMSNorm(self.dim) for _ in range(3 if normed else 0))

    def forward(self, h, cos, sin):
        q, k, v = (t.unflatten(-1, (-1, self.dim)).transpose(1, 2) for t in self.qkv(h).split(self.sizes, -1))
        if self.norms:
            q, k, v = (norm(t).to(t.dtype) for norm, t in zip(self.norms, (q, k, v)))
        a = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True, enable_gqa=True)
        return self.out(a.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(d, hidden, bias=False), nn.Linear(hidden // 2, d, bias=False)

    def forward(self, h):
        value, gate = self.up(h).chunk(2, -1)
        return self.down(value * F.silu(gate))


class Block(nn.Module):
    """pre: x += F(N(x)). siamese: x = N_x(x); r = F(N_in(x + N_y(y))); x += r/c; y += r.
    siamese_hybrid: the same, but attention reads c1⊙x + N_y(y) and norms q, k, v per head."""

    def __init__(self, index, d, heads, kv_heads, hidden, scheme):
        super().__init__()
        self.scheme, self.a = scheme, 1 / math.sqrt(2 * (index + 1))
        self.parts = nn.ModuleList([Attention(d, heads, kv_heads, scheme == "siamese_hybrid"), FeedForward(d, hidden)])
        self.x, self.y, self.read = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for part in range(2):
            hybrid = scheme == "siamese_hybrid" and part == 0
            self.x.append(nn.Identity() if hybrid else RMSNorm(d))
            if scheme != "pre":
                self.y.append(RMSNorm(d))
                self.read.append(nn.Identity() if hybrid else RMSNorm(d))
        self.c1 = nn.Parameter(torch.ones(d)) if scheme == "siamese_hybrid" else None

    def forward(self, x, y, cos, sin):
        for i, part in enumerate(self.parts):
            run = (lambda h: part(h, cos, sin)) if i == 0 else part
            if self.scheme == "pre":
                x = x + run(self.x[i](x))
                continue
            x = self.x[i](x)
            own = x * self.c1 if self.c1 is not None and i == 0 else x
            r = run(self.read[i](own + self.y[i](y)))
            x, y = x + r * self.a, y + r
        return x, y


class Model(nn.Module):
    def __init__(self, scheme, d, heads, kv_heads, blocks, hidden, vocab, length, theta=500000.0):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(Block(i, d, heads, kv_heads, hidden, scheme) for i in range(blocks))
        self.ends = nn.ModuleList(RMSNorm(d) for _ in range(1 if scheme == "pre" else 3))
        dim = d // heads
        angle = torch.outer(torch.arange(length).float(), theta ** (-torch.arange(0, dim, 2).float() / dim)).repeat(1, 2)
        self.cos, self.sin = nn.Buffer(angle.cos()), nn.Buffer(angle.sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.trunc_normal_(p, std=0.014)

    def forward(self, ids, labels):
        x = y = self.embedding(ids)
        for block in self.blocks:
            x, y = block(x, y, self.cos, self.sin)
        h = self.ends[0](x) if len(self.ends) == 1 else self.ends[2](self.ends[0](x) + self.ends[1](y))
        logits = F.linear(h, self.embedding.weight)  # tied
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def language_workload(name, scheme, device):
    *sizes, batch = WORKLOADS[name]
    vocab, length = sizes[-2:]
    ids = torch.randint(vocab, (batch, length + 1), device=device)
    return Model(scheme, *sizes), (ids[:, :-1].contiguous(), ids[:, 1:].contiguous())


class Trainer:
    def __init__(self, workload, scheme, mode, device):
        vision = workload in VISION
        model, self.inputs = (vision_workload if vision else language_workload)(workload, scheme, device)
        self.items = self.inputs[0].size(0) if vision else self.inputs[0].numel()  # pictures or tokens
        model = model.to(device)
        self.autocast = mode != "compile-bf16"
        self.device, self.master = device, list(model.parameters())
        if not self.autocast:
            self.master = [p.detach().clone() for p in self.master]
            tables = None if vision else (model.cos, model.sin)
            model = model.to(torch.bfloat16)
            if tables:
                model.cos, model.sin = tables  # positions stay in fp32
            self.inputs = tuple(t.to(torch.bfloat16) if t.is_floating_point() else t for t in self.inputs)
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(self.master, lr=1e-4, betas=(0.9, 0.95), fused=True)
        self.model = model if mode == "eager" else torch.compile(model)

    def step(self):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = self.model(*self.inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        if not self.autocast:
            for master, p in zip(self.master, self.parameters):
                master.grad, p.grad = p.grad.float(), None
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if not self.autocast:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.master)

    def timed(self):
        """ms of a step."""
        if self.device == "cpu":
            t0 = time.perf_counter()
            self.step()
            return 1e3 * (time.perf_counter() - t0)
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        self.step()
        b.record()
        torch.cuda.synchronize()
        return a.elapsed_time(b)


def measure(workload, scheme, mode, device, steps, rest):
    """As `siamese bench` measures: the first step, a rest, four steps that do not count, then those that do."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    gpu = device == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    t0 = time.perf_counter()
    trainer = Trainer(workload, scheme, mode, device)
    trainer.timed()
    first = time.perf_counter() - t0
    if gpu:
        time.sleep(rest)
    for _ in range(4):
        trainer.timed()
    in_order = [trainer.timed() for _ in range(steps)]
    ms = sorted(in_order)
    return dict(
        ms=round(statistics.median(ms), 2), ms_p10=round(ms[len(ms) // 10], 2), ms_p90=round(ms[len(ms) * 9 // 10], 2),
        items_per_s=round(1e3 * trainer.items / statistics.median(ms)), first_step_s=round(first, 1),
        peak_gb=round(torch.cuda.max_memory_allocated() / 2**30, 2) if gpu else 0,
        device=torch.cuda.get_device_name() if gpu else "cpu",
        steps_ms=[round(t, 1) for t in in_order],
    )


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("workload", choices=[*WORKLOADS, *VISION])
    ap.add_argument("--schemes", nargs="+", default=["pre", "siamese", "siamese_hybrid"], help="vision: pre and siamese", choices=["pre", "siamese", "siamese_hybrid"])
    ap.add_argument("--modes", nargs="+", default=["compile", "compile-bf16"], choices=PEER_MODES)
    ap.add_argument("--steps", type=positive, default=10, help="timed steps a row (default: %(default)s)")
    ap.add_argument("--rest", type=seconds, default=8, help="on a GPU: seconds of rest after a row's first step (default: %(default)s)")
    ap.add_argument("--device", default="cuda")
    a = ap.parse_args()
    if a.device == "cuda" and not torch.cuda.is_available():
        sys.exit("peer_gpu: there is no GPU here")
    torch.set_float32_matmul_precision("high")
    for mode in a.modes:
        for scheme in (s for s in a.schemes if a.workload not in VISION or s != "siamese_hybrid"):
            row = dict(workload=a.workload, scheme=scheme, peer=f"pytorch {torch.__version__}", mode=mode,
                       deterministic=torch.are_deterministic_algorithms_enabled())
            try:
                row |= measure(a.workload, scheme, mode, a.device, a.steps, a.rest)
            except Exception as e:  # out of memory in one mode must not end the others
                row["error"] = repr(e)[:300]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
