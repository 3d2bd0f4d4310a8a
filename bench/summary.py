#!/usr/bin/env python3
"""Medians over the turns of bench/run as one table: summary.py LINES.jsonl"""
import json
import statistics
import sys

rows = {}
for line in open(sys.argv[1]):
    r = json.loads(line)
    rows.setdefault((r["scheme"], "peer" in r), []).append(r["ms"])
median = {k: statistics.median(v) for k, v in rows.items()}
print(f"{'scheme':<16}{'siamese ms':>12}{'PyTorch ms':>12}{'PyTorch / siamese':>20}{'over pre':>10}   turns (siamese | PyTorch)")
for (scheme, peer), ms in median.items():
    if peer:
        continue
    other = median.get((scheme, True))
    print(f"{scheme:<16}{ms:>12.1f}{other or float('nan'):>12.1f}{(other / ms if other else float('nan')):>20.3f}"
          f"{100 * (ms / median[('pre', False)] - 1):>+9.1f}%   {rows[(scheme, False)]} | {rows.get((scheme, True), [])}")
