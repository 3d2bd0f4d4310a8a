#!/usr/bin/env python3
"""The tables of bench/compare and bench/compare_losses on lines as they are recorded: python3 bench/test_compare.py"""
import json
import unittest

import losses_table
from compare_table import best_peer, render

# The form of recorded lines; round numbers, so that ratios can be read off.
LINES = [
    json.loads(line)
    for line in """
{"workload": "lm-400m", "scheme": "pre", "peer": "pytorch 2.11.0", "mode": "compile", "ms": 180.0, "peak_gb": 40.0, "device": "H"}
{"workload": "lm-400m", "scheme": "siamese", "peer": "pytorch 2.11.0", "mode": "compile", "ms": 200.0, "peak_gb": 44.0, "device": "H"}
{"workload": "lm-400m", "scheme": "pre", "peer": "pytorch 2.11.0", "mode": "compile-bf16", "ms": 176.0, "peak_gb": 36.0, "device": "H"}
{"workload": "lm-400m", "scheme": "siamese", "peer": "pytorch 2.11.0", "mode": "compile-bf16", "error": "OutOfMemoryError()"}
{"workload": "lm-1.2b", "scheme": "pre", "peer": "pytorch 2.11.0", "mode": "compile", "ms": 1.0, "peak_gb": 1.0, "device": "H"}
{"workload": "lm-400m", "scheme": "pre", "ms": 160.0, "items_per_s": 1, "peak_gb": 27.0, "deterministic": false, "device": "H"}
{"workload": "lm-400m", "scheme": "siamese", "ms": 164.0, "items_per_s": 1, "peak_gb": 33.0, "deterministic": false, "device": "H"}
{"workload": "lm-400m", "scheme": "mhc", "ms": 184.0, "items_per_s": 1, "peak_gb": 50.0, "deterministic": false, "device": "H"}
{"workload": "lm-400m", "scheme": "pre", "ms": 200.0, "items_per_s": 1, "peak_gb": 27.0, "deterministic": true, "device": "H"}
{"workload": "lm-400m", "scheme": "siamese", "ms": 210.0, "items_per_s": 1, "peak_gb": 33.0, "deterministic": true, "device": "H"}
""".strip().splitlines()
]


class Table(unittest.TestCase):
    def rows(self, lines=LINES):
        return [line.split() for line in render(lines, "lm-400m").splitlines()[1:]]

    def test_the_better_mode_counts(self):
        self.assertEqual(best_peer(LINES, "lm-400m", "pre")["mode"], "compile-bf16")
        self.assertEqual(best_peer(LINES, "lm-400m", "siamese")["mode"], "compile")
        self.assertIsNone(best_peer(LINES, "lm-400m", "mhc"))

    def test_ratios(self):
        pre, siamese, mhc, pre_fixed, siamese_fixed, *failed = self.rows()
        self.assertEqual(pre, ["pre", "no", "176.0", "compile-bf16", "160.0", "1.100x", "36.0", "27.0", "0.750x"])
        self.assertEqual(siamese, ["siamese", "no", "200.0", "compile", "164.0", "1.220x", "+2.5", "%", "44.0", "33.0", "0.750x"])
        self.assertEqual(mhc, ["mhc", "no", "184.0", "+15.0", "%", "50.0"])
        self.assertEqual(pre_fixed[:6], ["pre", "yes", "176.0", "compile-bf16", "200.0", "0.880x"])
        self.assertEqual(siamese_fixed[6:8], ["+5.0", "%"])  # against the deterministic pre
        self.assertIn("OutOfMemoryError()", failed[0])

    def test_overhead_is_of_the_same_turn(self):
        first = [dict(r, ms=r["ms"] + 40, turn=1) for r in LINES if "peer" not in r and not r["deterministic"]]
        second = [dict(r, turn=2) for r in LINES if "peer" not in r]
        for lines in (first + LINES[:5] + second, first[::-1] + LINES[:5] + second[::-1]):  # pre may come last
            rows = self.rows(lines)[:8]
            over = sorted(row[6] for row in rows if row[0] == "siamese")
            self.assertEqual(over, ["+2.0", "+2.5", "+5.0"])
            self.assertEqual(sorted(row[4] for row in rows if row[0] == "pre"), ["160.0", "200.0", "200.0"])

    def test_without_peer_and_without_pre(self):
        only = [r for r in LINES if "peer" not in r and r["scheme"] == "siamese" and not r["deterministic"]]
        self.assertEqual(self.rows(only), [["siamese", "no", "164.0", "33.0"]])


def run(seed, kind, loss, last, of="a"):
    return {"scheme": "pre", "seed": seed, "kind": kind, "validation_loss": loss, "mean_of_last_20": last, "losses_sha256": of}


class Losses(unittest.TestCase):
    def test_differences_are_within_a_seed(self):
        lines = [run(1, "fused", 2.02, 2.0), run(2, "fused", 3.0, 3.0), run(2, "plain", 3.0, 3.0), run(1, "plain", 2.0, 2.0),
                 run(3, "fused", 9.0, 9.0)]  # its plain run is not there yet
        table, means = losses_table.render(lines).split("\n\n")
        self.assertEqual(table.splitlines()[1].split(), ["pre", "1", "fused", "2.0200", "+1.00", "%", "2.0000", "+0.00", "%", "a"])
        self.assertEqual(means.splitlines()[1].split(), ["pre", "fused", "2", "+0.50", "%", "±", "0.50", "+0.00", "%", "±", "0.00"])

    def test_twice(self):
        same = losses_table.render([run(1, "twice-1", 2.0, 2.0), run(1, "twice-2", 2.0, 2.0)])
        other = losses_table.render([run(1, "twice-1", 2.0, 2.0), run(1, "twice-2", 2.0, 2.0, "b")])
        self.assertIn("pre, seed 1, twice: losses are the same", same)
        self.assertIn("pre, seed 1, twice: losses DIFFER", other)


if __name__ == "__main__":
    unittest.main()
