#!/usr/bin/env python3
"""Medians over the turns of bench/run as one table: summary.py LINES.jsonl"""
import argparse
import statistics

from commands import fail, read_lines

ap = argparse.ArgumentParser(description=__doc__)
ap.add_argument("lines", help="JSON lines of bench/peer_lm.py and of siamese bench --json")
path = ap.parse_args().lines
rows = {}
for r in read_lines(path):
    if "scheme" in r and "ms" in r:
        rows.setdefault((r["scheme"], "peer" in r), []).append(r["ms"])
median = {k: statistics.median(v) for k, v in rows.items()}
base = median.get(("pre", False))
if not base:
    fail(f"{path} has no line of siamese bench for pre")
print(f"{'scheme':<16}{'siamese ms':>12}{'PyTorch ms':>12}{'PyTorch / siamese':>20}{'over pre':>10}   turns (siamese | PyTorch)")
for (scheme, peer), ms in median.items():
    if peer:
        continue
    other = median.get((scheme, True))
    beside = f"{other:>12.1f}{other / ms:>20.3f}" if other else f"{'-':>12}{'-':>20}"
    print(f"{scheme:<16}{ms:>12.1f}{beside}{100 * (ms / base - 1):>+9.1f}%   {rows[(scheme, False)]} | "
          f"{rows.get((scheme, True), '-')}")
