#!/usr/bin/env python3
"""The product's operators from Python: python3 bench/load_ops.py build/libsiamese_ops.so"""
import sys

import torch

torch.ops.load_library(sys.argv[1])
p = torch.randn(4, 6, requires_grad=True)
a, b = p.chunk(2, -1)
out = torch.ops.siamese.activation(p, 0)
print("largest difference from PyTorch:", (out - a * torch.nn.functional.silu(b)).abs().max().item())
out.sum().backward()
print("gradient:", p.grad.shape)
