#!/usr/bin/env python3
"""SiameseNorm in PyTorch with the fused stream step of libsiamese_ops.so: trains a small stack on a toy task.

  python3 python/example.py [--library build] [--device cuda] [--plain]
"""
import argparse
import math
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

LAYER_NORM, NORM_X, NORM_Y, NORM_IN = 1, 2, 4, 8  # bits of `flags`; without the first the norms are RMSNorm


def load(folder=pathlib.Path(__file__).parent.parent / "build"):
    """Registers the operators as torch.ops.siamese.*; their GPU kernels are a library of their own."""
    torch.ops.load_library(pathlib.Path(folder, "libsiamese_ops.so").resolve())
    gpu = pathlib.Path(folder, "libsiamese_cuda.so").resolve()
    if torch.cuda.is_available() and gpu.exists():
        torch.ops.load_library(gpu)


def rms_norm(t, gain, eps=1e-5):
    """Statistics in fp32 at least."""
    h = t if t.dtype == torch.float64 else t.float()
    return gain * (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)).to(t.dtype)


def plain_step(x, y, r, gain_x, gain_y, gain_in, a):
    """What the operator computes in one pass over memory: write r into both streams, read the next sub-layer's input."""
    if r is not None:
        x, y = x + a * r, y + r
    x = rms_norm(x, gain_x)
    return rms_norm(x + rms_norm(y, gain_y), gain_in), x, y


def fused_step(x, y, r, gain_x, gain_y, gain_in, a):
    z, x_out, y_out, _, _ = torch.ops.siamese.stream_step(
        x, y, r, gain_x=gain_x, gain_y=gain_y, gain_in=gain_in, a=a, eps=1e-5, flags=NORM_X | NORM_Y | NORM_IN, dtype=x.dtype
    )
    return z, x_out, y if r is None else y_out  # a stream that nothing was written to is not handed out again


class Read(nn.Module):
    """The three gains of one site."""

    def __init__(self, d):
        super().__init__()
        self.x, self.y, self.read = (nn.Parameter(torch.ones(d)) for _ in range(3))


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, z):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(z).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class SiameseStack(nn.Module):
    """x = N_x(x); r = F(N_in(x + N_y(y))); x += r/c; y += r, and N(N(x) + N(y)) at the end."""

    def __init__(self, d=64, blocks=2, heads=4, words=16, length=32, fused=True):
        super().__init__()
        self.step = fused_step if fused else plain_step
        self.word, self.place = nn.Embedding(words, d), nn.Embedding(length, d)
        self.parts = nn.ModuleList()
        for _ in range(blocks):
            self.parts.append(Attention(d, heads))
            self.parts.append(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)))
        self.reads = nn.ModuleList(Read(d) for _ in range(2 * blocks + 1))
        self.head = nn.Linear(d, words, bias=False)

    def forward(self, ids):
        x = y = self.word(ids) + self.place.weight[: ids.shape[1]]
        r, a = None, 1.0
        for k, read in enumerate(self.reads):
            # Each call writes the last sub-layer's output and reads the next one's input; the last one reads for the head.
            z, x, y = self.step(x, y, r, read.x, read.y, read.read, a)
            if k < len(self.parts):
                r, a = self.parts[k](z), 1 / math.sqrt(2 * (k // 2 + 1))
        return self.head(z)


def batch(step, words=16, length=32, size=32):
    """Sequences in which each number is the sum of the two before it, modulo `words`."""
    g = torch.Generator().manual_seed(step)
    ids = torch.randint(words, (size, length + 1), generator=g)
    for t in range(2, length + 1):
        ids[:, t] = (ids[:, t - 1] + ids[:, t - 2]) % words
    return ids


def train(fused=True, device="cpu", dtype=torch.float32, steps=100, report=0):
    """The loss of every step; the same numbers begin every run."""
    torch.manual_seed(1)
    model = SiameseStack(fused=fused).to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        ids = batch(step).to(device)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if report and (step % report == 0 or step == steps - 1):
            print(f"step {step:3d}  loss {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--library", default=pathlib.Path(__file__).parent.parent / "build", help="folder of libsiamese_ops.so")
    ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ap.add_argument("--plain", action="store_true", help="the same by PyTorch's operations")
    options = ap.parse_args()
    load(options.library)
    train(fused=not options.plain, device=options.device, report=10)
