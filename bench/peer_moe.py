#!/usr/bin/env python3
"""PyTorch's loop over the experts of a mixture. Times forward and backward of a language model on this GPU: `loop` with
three matrices an expert, as the OLMoE of Hugging Face's Transformers 4 has them; `stacked` with the experts' matrices in
one tensor, gate and up together; `dense` without experts, its feed-forward as wide as the active ones together.
Everything between the loop's gathers is compiled, sizes of an expert's rows left open.

  bench/peer_moe.py                      OLMoE's blocks: d 2048, 64 experts of 1,024, 8 a token, 32,768 tokens
  bench/peer_moe.py --layers 4 --tokens 16384 --micro-batches 2 --rows loop
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F


def feed_forward(x, w1, w2):
    a, b = F.linear(x, w1).chunk(2, -1)
    return F.linear(a * F.silu(b), w2)


@torch.compile(dynamic=True)
def stacked_expert(x, token, weight, w1, w2):
    return feed_forward(x[token], w1, w2) * weight[:, None].to(x.dtype)


@torch.compile(dynamic=True)
def lone_expert(x, token, weight, gate, up, down):
    x = x[token]
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down) * weight[:, None].to(x.dtype)


class Block(torch.nn.Module):
    def __init__(self, a, experts, width, lone):
        super().__init__()
        self.heads, self.experts, self.top_k = a.heads, experts, a.top_k
        self.norm_a, self.norm_f = torch.nn.RMSNorm(a.d), torch.nn.RMSNorm(a.d)
        self.qkv, self.out = torch.nn.Linear(a.d, 3 * a.d, bias=False), torch.nn.Linear(a.d, a.d, bias=False)
        self.router = torch.nn.Linear(a.d, experts, bias=False) if experts else None
        empty = lambda *shape: torch.nn.Parameter(torch.empty(*shape))
        if experts and lone:
            for name, shape in (("gate", (width, a.d)), ("up", (width, a.d)), ("down", (a.d, width))):
                setattr(self, name, torch.nn.ParameterList(empty(*shape) for _ in range(experts)))
        else:
            stack = [experts] if experts else []
            self.w1, self.w2 = empty(*stack, 2 * width, a.d), empty(*stack, a.d, width)
        self.stacked, self.expert = not lone, lone_expert if lone else stacked_expert

    def route(self, x):
        return F.softmax(self.router(x).float(), -1).topk(self.top_k, -1)

    @torch.compiler.disable
    def mixture(self, x, weights, chosen):
        # Unbound, not indexed: the gradient of an index is as large as all experts.
        out = torch.zeros_like(x)
        mine = zip(self.w1.unbind(0), self.w2.unbind(0)) if self.stacked else zip(self.gate, self.up, self.down)
        for e, matrices in enumerate(mine):
            token, slot = torch.where(chosen == e)
            out.index_add_(0, token, self.expert(x, token, weights[token, slot], *matrices))
        return out

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm_a(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = self.attention(x)
        h = self.norm_f(x).view(-1, x.size(-1))
        y = self.mixture(h, *self.route(h)) if self.experts else feed_forward(h, self.w1, self.w2)
        return x + y.view_as(x)


class Model(torch.nn.Module):
    def __init__(self, a, experts, width, lone):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(a.vocab, a.d), torch.nn.Linear(a.d, a.vocab, bias=False)
        self.blocks = torch.nn.ModuleList(Block(a, experts, width, lone) for _ in range(a.layers))
        self.norm = torch.nn.RMSNorm(a.d)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())


def run(name, a, experts, width, lone=False):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model(a, experts, width, lone)
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
    row = dict(peer=name, layers=a.layers, tokens=a.tokens, micro_batches=a.micro_batches,
               ms=round(ms[len(ms) // 2], 2), ms_min=round(ms[0], 2), ms_max=round(ms[-1], 2), warm_s=round(warm, 1), torch=torch.__version__,
               device=torch.cuda.get_device_name(), peak_gb=round(torch.cuda.max_memory_allocated() / 2**30, 1))
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(d=2048, heads=16, layers=8, vocab=50304, experts=64, top_k=8, width=1024, tokens=32768, length=2048,
                 micro_batches=1, warm=3, steps=7)
    for key, default in sizes.items():
        p.add_argument("--" + key.replace("_", "-"), type=int, default=default, help="default: %(default)s")
    p.add_argument("--rows", default="loop,stacked,dense", help="which of them (default: %(default)s)")
    a = p.parse_args()
    for name, experts, width, lone in (("loop", a.experts, a.width, True), ("stacked", a.experts, a.width, False),
                                          ("dense", 0, a.top_k * a.width, False)):
        if name not in a.rows.split(","):
            continue
        run(name, a, experts, width, lone)
        torch.compiler.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
