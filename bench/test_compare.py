#!/usr/bin/env python3
"""The table of bench/compare on lines as they are recorded: python3 bench/test_compare.py"""
import json
import unittest

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
        slower = [dict(r, ms=r["ms"] + 40) for r in LINES if "peer" not in r and not r["deterministic"]]
        rows = self.rows(slower + LINES)
        self.assertEqual(rows[0][:6], ["pre", "no", "176.0", "compile-bf16", "200.0", "0.880x"])
        self.assertEqual(rows[1][6:8], ["+2.0", "%"])
        self.assertEqual(rows[4][6:8], ["+2.5", "%"])

    def test_without_peer_and_without_pre(self):
        only = [r for r in LINES if "peer" not in r and r["scheme"] == "siamese" and not r["deterministic"]]
        self.assertEqual(self.rows(only), [["siamese", "no", "164.0", "33.0"]])


if __name__ == "__main__":
    unittest.main()
