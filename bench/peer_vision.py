"""DeiT and DiT in PyTorch, with Pre-Norm or with SiameseNorm's two streams, as bench/peer_gpu.py times them."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-6


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, h):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d, approximate):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(d, 4 * d), nn.GELU(approximate=approximate), nn.Linear(4 * d, d)

    def forward(self, h):
        return self.down(self.act(self.up(h)))


class Block(nn.Module):
    """pre: x += g·F(M(N(x))). siamese: x = N_x(x); r = g·F(M(N_in(x + N_y(y)))); x += r/c; y += r.
    M is adaLN's scale and shift and g its gate where the model has a condition, whose norm then has no gain."""

    def __init__(self, index, d, heads, scheme, conditioned):
        super().__init__()
        self.siamese, self.a = scheme == "siamese", 1 / math.sqrt(2 * (index + 1))
        approximate = "tanh" if conditioned else "none"
        self.parts = nn.ModuleList([Attention(d, heads), FeedForward(d, approximate)])
        self.read = nn.ModuleList(nn.LayerNorm(d, EPS, elementwise_affine=not conditioned) for _ in range(2))
        self.x = nn.ModuleList(nn.LayerNorm(d, EPS) for _ in range(2 if self.siamese else 0))
        self.y = nn.ModuleList(nn.LayerNorm(d, EPS) for _ in range(2 if self.siamese else 0))
        self.modulation = nn.Linear(d, 6 * d) if conditioned else None

    def forward(self, x, y, c):
        m = self.modulation(c).unsqueeze(1).chunk(6, -1) if c is not None else [None] * 6
        for i, part in enumerate(self.parts):
            shift, scale, gate = m[3 * i : 3 * i + 3]
            if self.siamese:
                x = self.x[i](x)
            h = self.read[i](x + self.y[i](y) if self.siamese else x)
            r = part(h if c is None else h * (1 + scale) + shift)
            if c is not None:
                r = gate * r
            x, y = (x + self.a * r, y + r) if self.siamese else (x + r, y)
        return x, y


class Stack(nn.Module):
    def __init__(self, d, heads, blocks, scheme, conditioned):
        super().__init__()
        self.blocks = nn.ModuleList(Block(i, d, heads, scheme, conditioned) for i in range(blocks))
        self.ends = nn.ModuleList(nn.LayerNorm(d, EPS) for _ in range(2 if scheme == "siamese" else 0))

    def forward(self, e, c=None):
        x = y = e
        for block in self.blocks:
            x, y = block(x, y, c)
        return self.ends[0](x) + self.ends[1](y) if self.ends else x


class DeiT(nn.Module):
    def __init__(self, scheme, d=384, heads=6, blocks=12, side=224, patch=16, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.positions = nn.Parameter(torch.randn(1, 1 + (side // patch) ** 2, d) * 0.02)
        self.stack, self.end, self.head = Stack(d, heads, blocks, scheme, False), nn.LayerNorm(d, EPS), nn.Linear(d, classes)

    def forward(self, pictures, labels):
        e = self.patch(pictures).flatten(2).transpose(1, 2)
        h = self.stack(torch.cat((self.cls.expand(e.size(0), -1, -1), e), 1) + self.positions)
        return F.cross_entropy(self.head(self.end(h)[:, 0]).float(), labels)


class DiT(nn.Module):
    def __init__(self, scheme, d=768, heads=12, blocks=12, side=32, channels=4, patch=2, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(channels, d, patch, patch)
        self.positions = nn.Buffer(torch.randn(1, (side // patch) ** 2, d))
        self.time, self.labels = nn.Sequential(nn.Linear(256, d), nn.SiLU(), nn.Linear(d, d)), nn.Embedding(classes + 1, d)
        self.stack, self.norm = Stack(d, heads, blocks, scheme, True), nn.LayerNorm(d, EPS, elementwise_affine=False)
        self.modulation, self.out = nn.Linear(d, 2 * d), nn.Linear(d, patch * patch * 2 * channels)

    def forward(self, x, t, labels):
        angle = t.float()[:, None] * torch.exp(torch.arange(128, device=x.device) * (-math.log(10000) / 128))
        waves = torch.cat((angle.cos(), angle.sin()), -1).to(self.out.weight.dtype)
        c = F.silu(self.time(waves) + self.labels(labels))
        h = self.stack(self.patch(x).flatten(2).transpose(1, 2) + self.positions, c)
        shift, scale = self.modulation(c).unsqueeze(1).chunk(2, -1)
        return self.out(self.norm(h) * (1 + scale) + shift).float().square().mean()


def vision_workload(name, scheme, device):
    """The model and its inputs; a batch is 256 pictures, of the smoke tests 2."""
    if name in ("deit-s", "smoke-deit"):
        smoke = name != "deit-s"
        model = DeiT(scheme, 64, 2, 2, 32, 8, 10) if smoke else DeiT(scheme)
        batch, side, classes = (2, 32, 10) if smoke else (256, 224, 1000)
        return model, (torch.randn(batch, 3, side, side, device=device), torch.randint(classes, (batch,), device=device))
    smoke = name != "dit-b2"
    model = DiT(scheme, 64, 2, 2, 8, classes=10) if smoke else DiT(scheme)
    batch, side, classes = (2, 8, 10) if smoke else (256, 32, 1000)
    return model, (torch.randn(batch, 4, side, side, device=device), torch.randint(1000, (batch,), device=device),
                   torch.randint(classes, (batch,), device=device))
