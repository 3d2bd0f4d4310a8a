#!/usr/bin/env python3
"""What the parts of a training step take by themselves on this GPU, in PyTorch: its matrix products (cuBLAS), its
attention (cuDNN), the bytes that fused stream steps, SwiGLU, loss, update and norms of q, k and v (siamese_hybrid) have
to move (copies), and all in turns; once rested (the GPU at its highest clock) and once sustained (under its power cap,
as in a training run). What a step takes beyond `all` is ours to explain; a kernel that fuses or beats these libraries
may go below.

  bench/floors.py                        lm-400m and lm-1.2b
  bench/floors.py lm-400m --seconds 4 --parts products "all siamese"
"""
import argparse
import json
import os
import subprocess
import sys
import time

from commands import check_words, fail, python_with_torch, seconds

WORKLOADS = {"lm-400m": dict(tokens=32768, length=2048, d=1024, blocks=24, heads=16, kv_heads=16, wide=5632, vocab=50304,
                        parameters=360e6),
             "lm-1.2b": dict(tokens=16384, length=4096, d=2048, blocks=16, heads=32, kv_heads=8, wide=16384, vocab=100352,
                        parameters=1.18e9)}
# Rows of d values a token and sub-layer, forward and backward, of a fused stream step: gradients joined, z written again
ROWS = {"pre": 4 + 5, "siamese": 6 + 8}
PARTS = ["products", "attention", "others", "norms of q, k, v", *("streams " + scheme for scheme in ROWS),
         *("all " + scheme for scheme in ROWS), "all siamese_hybrid"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="default: all")
    p.add_argument("--seconds", type=seconds, default=3, help="of sustained work (default: %(default)s)")
    p.add_argument("--parts", nargs="+", default=PARTS, help=f"of these (default: all): {'; '.join(PARTS)}")
    a = p.parse_args()
    check_words("a workload", a.workloads, WORKLOADS)
    check_words("--parts", a.parts, PARTS)
    return a


a = arguments()  # before PyTorch: --help and mistakes need none
try:
    import torch
    import torch.nn.functional as F
except ImportError:  # the one that `make bench` installs
    python = python_with_torch()
    os.execv(python, [python, *sys.argv])


def products(w):
    """Every product of a step: forward, gradient of the input, gradient of the weights."""
    d, t = w["d"], w["tokens"]
    qkv = d + 2 * d * w["kv_heads"] // w["heads"]
    layers = [(qkv, d, w["blocks"]), (d, d, w["blocks"]), (w["wide"], d, w["blocks"]), (d, w["wide"] // 2, w["blocks"]),
              (w["vocab"], d, 1)]
    work = []
    for n, k, times in layers:
        x, weight, g = (torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((t, k), (n, k), (t, n)))
        work += times * [lambda x=x, weight=weight, g=g: (x @ weight.t(), g @ weight, g.t() @ x)]
    return work


def attention(w):
    def make(heads):
        size = w["tokens"] // w["length"], heads, w["length"], w["d"] // w["heads"]
        return torch.randn(size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q, k, v, g = make(w["heads"]), make(w["kv_heads"]), make(w["kv_heads"]), make(w["heads"]).detach()

    def once():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).backward(g)
        q.grad = k.grad = v.grad = None
    return w["blocks"] * [once]


def copies(w, count):
    """So many bytes read or written, by copies of rows."""
    some = torch.randn(w["tokens"], w["d"], device="cuda").bfloat16()
    many = [torch.empty_like(some) for _ in range(8)]  # more than the cache holds
    return [lambda i=i: many[i % 8].copy_(many[(i + 4) % 8]) for i in range(round(count / (2 * some.nbytes)))]


def streams(w, scheme):
    return copies(w, ROWS[scheme] * (2 * w["blocks"] + 1) * w["tokens"] * w["d"] * 2)


def others(w):
    """SwiGLU beside its products (its output written twice, its input read, the gradient of the input twice as wide as
    that of the output), the loss (logits read, their gradient written), the update (28 bytes a parameter)."""
    return copies(w, w["tokens"] * 2 * (w["blocks"] * 2.5 * w["wide"] + 2 * w["vocab"]) + 28 * w["parameters"])


def head_norms(w):
    """Norms of q, k and v. As passes of their own: the projection, which is kept for the backward pass, read and what
    attention reads written; then gradient and projection read, the projection's gradient written. Inside the projection
    and attention, where every head has its own keys: q and k as they were written, and read for the backward pass (with
    SIAMESE_LEAN_NORMS=1 nothing: `all siamese` is the floor then)."""
    inside = w["kv_heads"] == w["heads"]
    rows = 2 * 2 if inside else 5 * (1 + 2 * w["kv_heads"] / w["heads"])
    return copies(w, rows * w["blocks"] * w["tokens"] * 2 * w["d"])


def in_turns(*lists):
    """All of them, each spread evenly over the whole."""
    return [f for _, f in sorted((((i + 0.5) / len(fs), f) for fs in lists for i, f in enumerate(fs)),
                                key=lambda pair: pair[0])]


def milliseconds(work, seconds):
    """Of one step of `work`: the first after a rest, and the median of the last half of so many seconds."""
    for f in work:
        f()
    torch.cuda.synchronize()
    time.sleep(3)
    times, end = [], time.time() + seconds
    while time.time() < end or len(times) < 4:
        begin, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for f in work:
            f()
        stop.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(stop))
    late = sorted(times[len(times) // 2:])
    said = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"],
                          capture_output=True, text=True).stdout.strip()
    return times[0], late[len(late) // 2], said


if __name__ == "__main__":
    if not torch.cuda.is_available():
        fail("there is no GPU here")
    for name in a.workloads:
        w = WORKLOADS[name]
        parts = {"products": products(w), "attention": attention(w), "others": others(w),
                 "norms of q, k, v": head_norms(w)}
        parts |= {"streams " + scheme: streams(w, scheme) for scheme in ROWS}
        for scheme in ROWS:
            parts["all " + scheme] = in_turns(parts["products"], parts["attention"], parts["others"],
                                              parts["streams " + scheme])
        parts["all siamese_hybrid"] = in_turns(parts["all siamese"], parts["norms of q, k, v"])
        for part, work in parts.items():
            if part not in a.parts:
                continue
            rested, sustained, clock = milliseconds(work, a.seconds)
            print(json.dumps(dict(workload=name, part=part, rested_ms=round(rested, 2), sustained_ms=round(sustained, 2),
                                  clock_and_power_after=clock, device=torch.cuda.get_device_name())), flush=True)
        del parts, work
        torch.cuda.empty_cache()
