#!/usr/bin/env python3
"""The loops over experts that bench/peer_moe.py times compute the same."""
import argparse
import unittest

import torch

import peer_moe

SIZES = argparse.Namespace(d=16, heads=2, layers=2, vocab=40, experts=5, top_k=2, width=8)


def loss_and_gradients(kind, weights, tokens):
    model = peer_moe.Model(SIZES, kind).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(weights(name))
    loss = model(tokens)
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters()}


class Peers(unittest.TestCase):
    def test_loops_agree(self):
        torch.manual_seed(0)
        tokens = torch.randint(SIZES.vocab, (3, 11))
        made = {name: 0.3 * torch.randn_like(p, dtype=torch.float64)
                for name, p in peer_moe.Model(SIZES, "stacked").named_parameters()}

        def lone(name):  # the matrices of one expert out of all
            head, _, last = name.rpartition(".")
            head, _, matrix = head.rpartition(".")
            if matrix not in ("gate", "up", "down"):
                return made[name]
            if matrix == "down":
                return made[head + ".w2"][int(last)]
            up, gate = made[head + ".w1"][int(last)].chunk(2)
            return gate if matrix == "gate" else up
        stacked, grads = loss_and_gradients("stacked", made.get, tokens)
        by_rows, row_grads = loss_and_gradients("sorted", made.get, tokens)
        alone, lone_grads = loss_and_gradients("loop", lone, tokens)
        for loss in by_rows, alone:
            torch.testing.assert_close(loss, stacked)
        for name, g in grads.items():
            torch.testing.assert_close(row_grads[name], g)
        for block in range(SIZES.layers):
            name = f"blocks.{block}."
            torch.testing.assert_close(torch.stack([lone_grads[f"{name}down.{e}"] for e in range(SIZES.experts)]),
                                       grads[name + "w2"])
            torch.testing.assert_close(lone_grads[name + "router.weight"], grads[name + "router.weight"])


if __name__ == "__main__":
    torch.compiler.set_stance("force_eager")
    unittest.main()
