#!/usr/bin/env python3
"""The operators as PyTorch sees them: torch.library.opcheck, gradients against autograd of the formula, a training run.

  python3 python/test_ops.py [--library build]      on the CPU, and on the GPU where there is one
"""
import argparse
import pathlib
import sys
import unittest

import torch
import torch.nn.functional as F

import example

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
# Which norms a form has, by the flags; "x", "y", "r" say which tensors it has. The last column: a.
FORMS = {
    "norm": ("y", 4, 1.0),
    "pre": ("yr", 4, 1.0),
    "post": ("xr", 2, 1.0),
    "post_scaled": ("xr", 2, 0.5),
    "siamese": ("xyr", 2 | 4 | 8, 0.5),
    "siamese_first": ("xy", 2 | 4 | 8, 1.0),
    "siamese_no_input_norm": ("xyr", 2 | 4, 0.5),
    "hybrid": ("xyr1", 4, 0.7),  # 1: c1, the attention read of siamese_hybrid
    "sum": ("xyr", 8, 0.5),
    "reordered": ("yr", 16, 1.0),
    "sandwich": ("yr", 4 | 16, 1.0),
    "resi_dual": ("xyr", 2 | 32, 1.0),
    "pre_adaln": ("yrgm", 4, 1.0),  # g: a gate on r, m: scale and shift of z, p: DropPath's factors
    "pre_drop_path": ("yrp", 4, 1.0),
    "sandwich_gated": ("yrgmp", 4 | 16, 1.0),
    "siamese_adaln": ("xyrgmp", 2 | 4 | 8, 0.5),
}


def make_step(name, dtype, device, layer=False, shape=(3, 5, 24)):
    """Arguments of one call, every tensor of it a leaf."""
    tensors, flags, a = FORMS[name]
    torch.manual_seed(0)
    leaf = lambda size, mean=0.0, std=1.0: (mean + std * torch.randn(size)).to(device, dtype).requires_grad_()
    gains = [s for s, bit in (("x", 2), ("y", 4), ("in", 8), ("r", 16)) if flags & bit]
    args = {s: leaf(shape) if s in tensors else None for s in "xyr"}
    args |= {"gain_" + s: leaf(shape[-1:], 1.0, 0.3) for s in gains}
    args |= {"bias_" + s: leaf(shape[-1:], 0.0, 0.3) for s in gains if layer}
    if "1" in tensors:
        args["c1"] = leaf(shape[-1:], 1.0, 0.3)
    for what, letter in (("gate", "g"), ("scale", "m"), ("shift", "m")):
        if letter in tensors:
            args[what] = leaf((shape[0], shape[-1]), 0.0, 0.5)
    if "p" in tensors:
        args["row_scale"] = torch.tensor([1.25, 0.0, 0.5][:shape[0]], device=device)
    return args | dict(a=a, eps=1e-5, flags=flags | int(layer), dtype=dtype)


def formula(x, y, r, a, eps, flags, dtype, c1=None, gate=None, scale=None, shift=None, row_scale=None, **affine):
    """z and the new streams (None: unchanged) by PyTorch's operations."""

    def norm(t, name, bit):
        if not flags & bit:
            return t
        h = t if t.dtype == torch.float64 else t.float()
        if flags & 1:
            h = h - h.mean(-1, keepdim=True)
        h = (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)).to(dtype) * affine["gain_" + name]
        return h + affine["bias_" + name] if "bias_" + name in affine else h

    if r is not None:
        w = norm(r if gate is None else r * gate.unsqueeze(1), "r", 16)
        w = w if row_scale is None else w * row_scale.to(w).view(-1, 1, 1)
        x, y = x if x is None else x + a * w, y if y is None else y + w
    u = None
    if x is not None:
        u = x = norm(x, "x", 2)
        u = u if c1 is None else u * c1
    if y is not None and not flags & 32:
        u = norm(y, "y", 4) if u is None else u + norm(y, "y", 4)
    z = norm(u, "in", 8)
    z = z if scale is None else z * (1 + scale.unsqueeze(1))
    return z if shift is None else z + shift.unsqueeze(1), x, y


def fused(args):
    z, x, y, _, _ = torch.ops.siamese.stream_step(**args)
    # An empty result: the stream is unchanged, or (post) it is z.
    new_x = x if x.numel() else z if args["y"] is None else args["x"]
    return z, new_x if args["x"] is not None else None, (y if y.numel() else args["y"]) if args["y"] is not None else None


def gradients(outputs, args):
    """Of every leaf, for fixed gradients of the results."""
    leaves = {k: v for k, v in args.items() if isinstance(v, torch.Tensor) and v.requires_grad}
    g = torch.Generator().manual_seed(7)
    pairs = [(o, torch.randn(o.shape, generator=g).to(o)) for o in outputs if o is not None]
    outs, grads = zip(*[(o, w) for o, w in pairs if o.requires_grad])
    return dict(zip(leaves, torch.autograd.grad(outs, list(leaves.values()), grads)))


def check_form(test, name, dtype, device, layer, shape, tolerance):
    args = make_step(name, dtype, device, layer, shape)
    # The formula in fp64: the truth that every type is held to.
    exact = {k: v.detach().cpu().double().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    exact["dtype"] = torch.float64
    got, want = fused(args), formula(**exact)
    pairs = {k: (a, b) for k, a, b in zip(("z", "x", "y"), got, want) if a is not None}
    ga, gb = gradients(got, args), gradients(want, exact)
    pairs |= {"gradient of " + k: (ga[k], gb[k]) for k in gb}
    for what, (a, b) in pairs.items():
        a, b = a.detach().cpu().double(), b.detach()
        error = ((a - b).norm() / b.norm()).item()
        test.assertLess(error, tolerance, f"{name} {dtype} {device} layer={layer}: {what}")


def make_qkv(device, dtype, gains, biases):
    """Arguments of qkv_rope up to its flags: 4 heads of 16, 2 for keys and values; leaves are what has a gradient."""
    torch.manual_seed(0)
    leaf = lambda *size, mean=0.0, std=1.0: (mean + std * torch.randn(size)).to(device, dtype).requires_grad_()
    angle = torch.randn(5, 8).to(device, torch.float64 if dtype == torch.float64 else torch.float32)
    affine = [leaf(16, mean=1.0, std=0.3) if i < gains else None for i in range(3)]
    affine += [leaf(16, std=0.3) if i < biases else None for i in range(3)]
    return leaf(3, 5, 8, 16), angle.cos(), angle.sin(), affine, 4, 2


def qkv_formula(qkv, cos, sin, affine, heads, kv_heads, flags, eps):
    """The same by PyTorch's operations."""
    out = []
    for i, t in enumerate(qkv.split((heads, kv_heads, kv_heads), 2)):
        if flags & (2 << i):
            t = t - t.mean(-1, keepdim=True) if flags & 1 else t
            t = t * torch.rsqrt(t.square().mean(-1, keepdim=True) + eps) * affine[i]
            t = t if affine[3 + i] is None else t + affine[3 + i]
        if i < 2:
            a, b = t.chunk(2, -1)
            c, s = cos.unsqueeze(1), sin.unsqueeze(1)
            t = torch.cat((a * c - b * s, b * c + a * s), -1)
        out.append(t)
    return torch.cat(out, 2)


def make_hyper(kind, n, d, device, dtype=torch.float32):
    """Arguments of hyper_step up to its kind: 3 x 5 tokens; kind 1 fixed, 2 dynamic, 3 mhc."""
    torch.manual_seed(0)
    leaf = lambda *size: (0.3 * torch.randn(size)).to(device, dtype).requires_grad_()
    maps = [leaf(*size) for size in {1: [[n], [n, n], [n]], 2: [[n], [n, n], [n], [d], [d, n], [d], [], []],
                                     3: [[n * d, n], [n * d, n], [n * d, n * n], [n], [n], [n, n], [], [], []]}[kind]]
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    write, residual = (t.to(device, exact) for t in (torch.rand(3, 5, n), torch.rand(3, 5, n, n)))
    map_gain = {1: None, 2: leaf(d), 3: leaf(n * d)}[kind]
    return leaf(3, 5, n, d), residual, write.requires_grad_(), leaf(3, 5, d), leaf(d), map_gain, maps


class Gradients(unittest.TestCase):
    def test_qkv_rope(self):
        for device in DEVICES:
            for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
                if device == "cuda" and dtype == torch.float64:
                    continue  # the kernel has bf16 and fp32
                for flags, gains, biases in ((0, 0, 0), (2 | 4, 2, 0), (1 | 2 | 4 | 8, 3, 3)):
                    args = make_qkv(device, dtype, gains, biases)
                    leaves = [args[0]] + [t for t in args[3] if t is not None]
                    got, want = (f(*args, flags, 1e-5) for f in (torch.ops.siamese.qkv_rope, qkv_formula))
                    torch.testing.assert_close(got, want, rtol=tolerance, atol=10 * tolerance)
                    g = torch.randn_like(got).transpose(1, 2).contiguous().transpose(1, 2)  # strides of its own
                    for a, b in zip(*(torch.autograd.grad(out, leaves, g) for out in (got, want))):
                        torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=100 * tolerance)

    def test_activation(self):
        """Also where the GPU has no kernels: fp64, and widths that 8 does not divide."""
        swiglu = lambda t: t.chunk(2, -1)[0] * F.silu(t.chunk(2, -1)[1])
        formulas = swiglu, F.gelu, lambda t: F.gelu(t, approximate="tanh")
        for device in DEVICES:
            for width in (14, 16, 32768):
                for kind, plain in enumerate(formulas):
                    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
                        p = torch.randn(5, width, device=device, dtype=dtype, requires_grad=True)
                        got, want = torch.ops.siamese.activation(p, kind), plain(p)
                        g = torch.randn_like(got)
                        pairs = [(got, want), *zip(*(torch.autograd.grad(out, p, g) for out in (got, want)))]
                        pairs += zip(torch.ops.siamese.activation_backward(g, p.detach(), kind, True), (pairs[1][1], want))
                        for a, b in pairs:
                            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)

    def test_rope(self):
        for device in DEVICES:
            t = torch.randn(2, 5, 3, 8, device=device, dtype=torch.float64, requires_grad=True)
            angle = torch.randn(5, 4, device=device, dtype=torch.float64)
            cos, sin = angle.cos(), angle.sin()
            got, want = torch.ops.siamese.rope(t, cos, sin), qkv_formula(t, cos, sin, [None] * 6, 3, 0, 0, 0.0)
            torch.testing.assert_close(got, want)
            torch.testing.assert_close(torch.ops.siamese.rope(got, cos, sin, inverse=True), t)
            for a, b in zip(*(torch.autograd.grad(out.sin().sum(), t) for out in (got, want))):
                torch.testing.assert_close(a, b)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_hyper_step_on_gpu(self):
        """As on the CPU, also in sizes and types without kernels: all but the first."""
        for kind, n, d, dtype in ((1, 2, 16, torch.float32), (1, 3, 16, torch.float32), (2, 2, 13, torch.float32),
                                  (2, 4, 16, torch.float64), (3, 4, 20, torch.float32), (3, 2, 2056, torch.float32)):
            results = []
            for device in DEVICES:
                args = make_hyper(kind, n, d, device, dtype)
                z, h, residual, write, saved = torch.ops.siamese.hyper_step(*args, kind, 1e-5, 1e-5, True)
                leaves = [t for t in (args[0], *args[2:6], *args[6]) if t is not None]
                grads = torch.autograd.grad(z.sin().sum() + h.cos().sum() + (write * write).sum(), leaves)
                results.append([t.detach().cpu() for t in (z, h, residual, write, saved, *grads)])
            tolerance = 1e-10 if dtype == torch.float64 else 1e-4
            for a, b in zip(*results):
                torch.testing.assert_close(a, b, rtol=10 * tolerance, atol=tolerance)

    def test_forms(self):
        for name in FORMS:
            for layer in (False, True):
                for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
                    check_form(self, name, dtype, "cpu", layer, (3, 5, 24), tolerance)

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_forms_on_gpu(self):
        for name in FORMS:
            for layer in (False, True):
                for shape in ((3, 5, 24), (2, 67, 203), (1, 129, 1024)):  # 203: rows the kernels have to pad
                    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
                        check_form(self, name, dtype, "cuda", layer, shape, tolerance)


class Opcheck(unittest.TestCase):
    """Schema, autograd registration, fake tensors and AOT dispatch with symbolic shapes."""

    def check(self, op, args, kwargs=None):
        torch.library.opcheck(op, args, kwargs or {})

    def check_bare(self, name, *args, **kwargs):
        """Of an operator without autograd: others call it in their backward passes, or it has no gradients."""
        op = getattr(torch.ops.siamese, name).default
        whole = lambda t: t.detach() if isinstance(t, torch.Tensor) else t
        bare = lambda t: [whole(u) for u in t] if isinstance(t, list) else whole(t)
        args, kwargs = [bare(t) for t in args], {k: bare(t) for k, t in kwargs.items()}
        torch.library.opcheck(op, args, kwargs, test_utils=("test_schema", "test_faketensor"))

    def test_stream_step(self):
        for device in DEVICES:
            for name in FORMS:
                with self.subTest(form=name, device=device):
                    args = make_step(name, torch.float32, device)
                    self.check(torch.ops.siamese.stream_step.default, (), args)
                    g = {"g_z": torch.randn(3, 5, 24, device=device)}
                    g |= {f"g_{s}_out": torch.randn(3, 5, 24, device=device) for s in "xy" if args[s] is not None}
                    self.check_bare("stream_step_backward", **args, **g, want_z=device == "cuda")

    def test_activation(self):
        for device in DEVICES:
            for kind in (0, 1, 2):  # swiglu, gelu, gelu_tanh
                for width in (32, 34):  # 34: the GPU has no kernel
                    p = torch.randn(3, 4, width, device=device, requires_grad=True)
                    self.check(torch.ops.siamese.activation.default, (p, kind))
                    g = torch.randn(3, 4, width // (1 + (kind == 0)), device=device)
                    for want_output in (False, True):
                        self.check_bare("activation_backward", g, p, kind, want_output)

    def test_products(self):
        for device in DEVICES:
            leaf = lambda *size: torch.randn(*size, device=device, requires_grad=True)
            self.check(torch.ops.siamese.gemm.default, (leaf(5, 8), leaf(16, 8), False, True))
            self.check(torch.ops.siamese.gemm.default, (leaf(5, 8), leaf(16, 8), False, True, leaf(16)))
            self.check(torch.ops.siamese.column_sums.default, (leaf(3, 5, 8),))
            self.check(torch.ops.siamese.gemm_swiglu.default, (leaf(5, 8), leaf(32, 8)))
            self.check_bare("gemm_swiglu_backward", leaf(5, 8), leaf(8, 16), leaf(5, 32))
            angle = torch.randn(3, 8, device=device)
            self.check(torch.ops.siamese.gemm_qkv_rope.default, (leaf(6, 8), leaf(64, 8), angle.cos(), angle.sin(), 2, 1, 3))
            gains = [leaf(16) for _ in range(3)]
            self.check(torch.ops.siamese.gemm_qkv_norm.default, (leaf(6, 8), leaf(64, 8), gains, angle.cos(), angle.sin(), 1e-5, 2, 1, 3))
            for gain in gains:  # not alike any more: nothing is left unwritten, which could not be compared
                gain.data[0] = 0
            self.check(torch.ops.siamese.gemm_qkv_norm.default, (leaf(6, 8), leaf(64, 8), gains, angle.cos(), angle.sin(), 1e-5, 2, 1, 3, True))

    def test_attention(self):
        for device in DEVICES:
            if device == "cuda" and torch.cuda.get_device_capability() != (9, 0):
                continue
            dtype = torch.bfloat16 if device == "cuda" else torch.float32
            qkv = torch.randn(2, 9, 8, 64, device=device, dtype=dtype, requires_grad=True)
            for causal in (True, False):
                self.check(torch.ops.siamese.attention.default, (qkv, 4, 2, causal))
                table = torch.randn(9, 32, device=device)
                out, sums = torch.ops.siamese.attention(qkv.detach(), 4, 2, causal)
                for turned in ((None, None), (table.cos(), table.sin())):
                    args = torch.randn_like(out), qkv, out, sums, False, *turned, 4, 2, causal
                    self.check_bare("attention_backward", *args)
            make = lambda *size: torch.randn(*size, device=device, dtype=dtype)
            qkv, g, table, rho = make(2, 9, 6, 64), make(2, 9, 2, 64), torch.randn(9, 32, device=device), torch.rand(6, 18, device=device)
            args = g, qkv, *torch.ops.siamese.attention(qkv, 2, 2), False, table, table, [make(64) for _ in range(3)], make(18, 256), rho
            for lean in (False, True):
                self.check_bare("attention_norms_backward", *args, lean)

    def test_embedding(self):
        for device in DEVICES:
            weight = torch.randn(11, 8, device=device, requires_grad=True)
            ids = torch.randint(11, (3, 5), device=device)
            self.check(torch.ops.siamese.embedding.default, (weight, ids))
            self.check_bare("embedding_backward", torch.randn(3, 5, 8, device=device), ids, 11)

    def test_lm_head_loss(self):
        for device in DEVICES:
            for rows in (0, 3):  # by size, and in chunks
                hidden, weight = (torch.randn(n, 16, device=device, requires_grad=True) for n in (7, 24))
                targets = torch.randint(24, (7,), device=device)
                self.check(torch.ops.siamese.lm_head_loss.default, (hidden, weight, targets), dict(z_weight=1e-2, chunk_rows=rows))
                for wanted in ((True, True), (True, False), (False, True), (False, False)):
                    self.check_bare("lm_head_loss_gradients", hidden, weight, targets, -100, 1e-2, 1.0, rows, *wanted)
            numbers = lambda *size: torch.randn(*size, device=device)
            for gradient in (False, True):
                args = numbers(7, 24), targets, torch.tensor(7.0, device=device), numbers(7), numbers(7)
                self.check_bare("cross_entropy_rows_", *args, -100, 1.0, 1e-2, gradient)
            self.check_bare("scale_by_", numbers(7, 24), torch.tensor(0.5, device=device))

    def test_hyper_step(self):
        for device in DEVICES:
            # The GPU has no kernels for the last three.
            for kind, n, d in ((1, 2, 16), (2, 2, 16), (3, 4, 16), (1, 3, 16), (2, 2, 13), (3, 4, 20)):
                with self.subTest(kind=kind, n=n, d=d, device=device):
                    args = make_hyper(kind, n, d, device)
                    self.check(torch.ops.siamese.hyper_step.default, (*args, kind, 1e-5, 1e-5, True))
                    with torch.no_grad():
                        z, h, _, write, saved = torch.ops.siamese.hyper_step(*args, kind, 1e-5, 1e-5, True)
                    g = [torch.randn_like(t) for t in (z, h, write)]
                    self.check_bare("hyper_step_backward", *g, h, saved, *args[2:], kind, True)

    def test_rope(self):
        for device in DEVICES:
            t, table = torch.randn(2, 5, 3, 8, device=device, requires_grad=True), torch.randn(5, 4, device=device)
            for inverse in (False, True):
                self.check(torch.ops.siamese.rope.default, (t, table.cos(), table.sin(), inverse))

    def test_random(self):
        for device in DEVICES:
            t = torch.randn(2, 5, 3, 8, device=device, requires_grad=True)
            self.check(torch.ops.siamese.dropout.default, (t, 0.25, 1, 2, 3))
            self.check_bare("uniform_", t, 1, 2, 3)
            for dtype in (torch.float32, torch.bfloat16):
                self.check_bare("truncated_normal_", t.to(dtype), 0.02, 3.0, 1, 2, 3, 4)

    def test_qkv_rope(self):
        for device in DEVICES:
            for flags, gains, biases in ((0, 0, 0), (2 | 4, 2, 0), (1 | 2 | 4 | 8, 3, 3)):  # bare, q and k, LayerNorm on all
                with self.subTest(flags=flags, device=device):
                    qkv, *rest = make_qkv(device, torch.float32, gains, biases)
                    self.check(torch.ops.siamese.qkv_rope.default, (qkv, *rest, flags, 1e-5))
                    plain = [t.detach() if isinstance(t, torch.Tensor) else t for t in (qkv, *rest)]
                    plain[3] = [t if t is None else t.detach() for t in rest[2]]
                    self.check(torch.ops.siamese.qkv_rope_out.default, (torch.empty_like(plain[0]), *plain, flags, 1e-5))
                    g = torch.randn_like(plain[0]).split((4, 2, 2), 2)
                    self.check(torch.ops.siamese.qkv_rope_backward.default, (*g, *plain, flags, 1e-5))

    def test_experts(self):
        for device, dtype in zip(DEVICES, (torch.float32, torch.bfloat16)):
            make = lambda *size: torch.randn(size, device=device, dtype=dtype)
            chosen, weights = torch.rand(37, 6, device=device).topk(2).indices, torch.rand(37, 2, device=device)
            for capacity in (0, 5):  # 37 tokens, each with 2 of 6 experts
                token, slot, place, *_ = torch.ops.siamese.expert_sort(chosen, 6, capacity)
                p, u, ys = (make(len(slot), width) for width in (32, 16, 24))
                calls = dict(expert_sort=(chosen, 6, capacity), spread_rows=(make(37, 24), place, token), gather_sum=(ys, place, 2),
                             weighted_swiglu=(p, weights, slot), weighted_swiglu_backward=(p, u, weights, slot))
                for name, args in calls.items():  # the mixture's node calls them both ways
                    self.check_bare(name, *args)

    def test_adamw(self):
        """Tables of no tensors: the schemas and fake tensors; C++ tests compare the numbers."""
        for device in DEVICES:
            table = torch.empty(0, dtype=torch.uint8, device=device)
            control, sums = torch.ones(14, dtype=torch.float64, device=device), torch.zeros(1, device=device)
            calls = dict(adamw_plan_=(control, 1e-3, 1), adamw_accumulate_=(sums, table, table, table, False),
                         adamw_step_=(control, table, table, table, sums, torch.ones((), dtype=torch.float64, device=device)))
            for name, args in calls.items():
                self.check(getattr(torch.ops.siamese, name).default, args)

    def test_compile(self):
        """torch.compile keeps the operator whole and takes its gradient."""
        for device in DEVICES:
            args = make_step("siamese", torch.float32, device)
            step = torch.compile(fused, backend="aot_eager", fullgraph=True)
            for key, g in gradients(step(args), args).items():
                torch.testing.assert_close(g, gradients(fused(args), args)[key])


class Training(unittest.TestCase):
    def test_head_loss(self):
        hidden, weight = (torch.randn(n, 16, dtype=torch.float64, requires_grad=True) for n in (9, 24))
        targets = torch.randint(24, (9,))
        total, ce = torch.ops.siamese.lm_head_loss(hidden, weight, targets)
        want = F.cross_entropy(hidden @ weight.t(), targets)
        torch.testing.assert_close(ce, want.detach())
        for a, b in zip(torch.autograd.grad(total, (hidden, weight)), torch.autograd.grad(want, (hidden, weight))):
            torch.testing.assert_close(a, b)

    def test_losses_are_those_of_plain_pytorch(self):
        a, b = (torch.tensor(example.train(fused, dtype=torch.float64)) for fused in (True, False))
        torch.testing.assert_close(a, b, rtol=1e-6, atol=0)
        self.assertLess(a[-1], 0.5 * a[0])

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_losses_on_gpu(self):
        # Rounding differs and grows with every step: the first losses are equal, all of them near.
        a, b = (torch.tensor(example.train(fused, device="cuda")) for fused in (True, False))
        torch.testing.assert_close(a[:10], b[:10], rtol=1e-4, atol=0)
        torch.testing.assert_close(a, b, rtol=0.05, atol=0)


if __name__ == "__main__":
    ap = argparse.ArgumentParser(add_help=False)
    ap.add_argument("--library", default=pathlib.Path(__file__).parent.parent / "build")
    options, rest = ap.parse_known_args()
    example.load(options.library)
    unittest.main(argv=sys.argv[:1] + rest)
