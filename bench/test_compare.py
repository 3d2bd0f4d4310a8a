#!/usr/bin/env python3
"""The tables of bench/compare and bench/compare_losses on lines as they are recorded, and what the scripts say and keep
where something is amiss: python3 bench/test_compare.py. Without PyTorch, a GPU and the product."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import losses_table
from commands import read_lines
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

    def test_peers_lines_new_and_old(self):
        new = [r | {"deterministic": False} if "peer" in r else r for r in LINES]
        self.assertEqual(render(new, "lm-400m"), render(LINES, "lm-400m"))
        old = [{k: v for k, v in r.items() if k != "mode"} for r in LINES]
        self.assertEqual(self.rows(old)[0][:4], ["pre", "no", "176.0", "160.0"])


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


# What the scripts ask of the product; a run of seed 8 fails, one of seed 9 goes on and on.
PRODUCT = """#!/bin/sh
case "$*" in *nosuch*) echo "siamese: nosuch: there is none" >&2; exit 1;; esac
case "$1 $*" in
bench*) echo '{"workload": "lm-400m", "scheme": "pre", "ms": '${MS:-160}.0', "steps_ms": [150.0, '${MS:-160}.0', 999.0], "device": "H"}';;
train*seed=8*) printf 'train 1/2\\nsiamese: out of luck\\n' >&2; exit 1;;
train*seed=9*) exec sleep 60;;
train*) mkdir "$4"
  printf '{"loss": 2.0}\\n{"validation_loss": 3.0}\\n' >"$4/metrics.jsonl"
  echo '{"deterministic": true}' >"$4/run.json";;
esac
"""


class Scripts(unittest.TestCase):
    """In a copy, so that bench/results stays as it is."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.bench, self.results = self.root / "bench", self.root / "bench/results"
        left = shutil.ignore_patterns("results", "__pycache__")
        shutil.copytree(pathlib.Path(__file__).parent, self.bench, ignore=left)
        for path, text in (("build/siamese", PRODUCT), ("scripts/python-with-torch", "#!/bin/sh\nexit 1\n")):
            (self.root / path).parent.mkdir()
            (self.root / path).write_text(text)
            (self.root / path).chmod(0o755)
        (self.bench / "torch.py").write_text("raise ImportError")  # where this Python has one
        (self.root / "book.txt").write_text("a book")

    def run_script(self, script, *arguments):
        return subprocess.run([sys.executable, self.bench / script, *arguments], cwd=self.root, capture_output=True,
                              text=True, timeout=60)

    def kept(self):
        """Of each file of results its lines."""
        return {f.name: read_lines(f) for f in self.results.glob("*")}

    def refuses(self, message, *command):
        """In one line, with nothing left behind."""
        done = self.run_script(*command)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(self.kept(), {})

    def test_mistakes_come_before_pytorch(self):
        self.refuses("compare: without --no-peer the workload must be one of lm-400m", "compare", "nosuch")
        self.refuses("compare: --modes must be one of eager", "compare", "lm-400m", "--modes", "compile,bogus")
        self.refuses("siamese: nosuch", "compare", "lm-400m", "pre,nosuch")
        self.refuses("siamese: nosuch", "compare_moe", "--scheme", "nosuch")
        self.refuses("floors: a workload must be one of lm-400m", "floors.py", "nosuch")
        self.refuses("floors: --parts must be one of products", "floors.py", "--parts", "bogus")
        self.assertEqual(self.run_script("floors.py", "--help").returncode, 0)
        for script, *arguments in (["compare", "lm-400m"], ["compare_moe"], ["floors.py"]):
            name = script.removesuffix(".py")
            missing = "no Python with PyTorch" if os.path.exists("/dev/nvidiactl") else "there is no NVIDIA GPU here"
            self.refuses(f"{name}: {missing}", script, *arguments)

    def test_no_product(self):
        for script, *arguments in (["compare", "lm-400m"], ["compare_moe"], self.losses()):
            self.refuses(f"{script}: cannot run /nosuch: No such file", script, *arguments, "--siamese", "/nosuch")
            self.refuses(f"{script}: cannot run ./book.txt: Permission", script, *arguments, "--siamese", "./book.txt")

    def test_earlier_lines_of_the_peer(self):
        file = self.root / "earlier.jsonl"
        compare = ["compare", "lm-400m", "pre", "--no-peer", file]
        self.refuses(f"compare: {file}: No such file", *compare)
        file.write_text("no lines\n{nor this\n")
        self.refuses(f"compare: {file}: line 2 is not JSON", *compare)
        file.write_text('{"peer": "loop", "ms": 1.0}\n' + json.dumps(LINES[4]))
        self.refuses(f"compare: {file} has no peer's lines for lm-400m", *compare)
        file.write_text(json.dumps(LINES[0]))
        self.refuses("siamese: nosuch", "compare", "lm-400m", "nosuch", "--no-peer", file)
        done = self.run_script(*compare)
        (name, lines), = self.kept().items()
        self.assertIn(f"an earlier one's, from {file}\n", done.stdout)
        self.assertIn("1.125x", done.stdout)
        self.assertTrue(done.stdout.endswith(f"raw lines: {self.results.resolve() / name}\n"), done.stdout)
        self.assertEqual([r.get("from") for r in lines], [None, str(file)])

    def test_with_the_peer(self):
        python = self.root / "python"
        python.write_text(f"#!/bin/sh\necho '{json.dumps(LINES[0])}'\n")
        python.chmod(0o755)
        (self.root / "scripts/python-with-torch").write_text(f"#!/bin/sh\necho {python}\n")
        done = self.run_script("compare", "lm-400m", "pre", "--turns", "2")
        (name, lines), = self.kept().items()
        self.assertEqual([(r.get("turn"), r.get("mode")) for r in lines], [(1, None), (None, "compile"), (2, None)])
        self.assertTrue(done.stdout.startswith("lm-400m on H\nscheme "), done.stdout)

    def test_files_are_numbered(self):
        for _ in range(2):
            self.assertEqual(self.run_script("compare", "lm-400m", "mhc").returncode, 0)  # the peer lacks it
        first, second = sorted(self.kept(), key=len)
        self.assertEqual(second, first.replace(".jsonl", "-2.jsonl"))

    def test_variants(self):
        self.refuses("variants: 'WOVEN' is not NAME=value,value", "variants", "lm-400m", "pre", "WOVEN")
        self.refuses("variants: 'A=1,' is not NAME=value,value", "variants", "lm-400m", "pre", "A=1,")
        self.refuses("siamese: nosuch", "variants", "lm-400m", "pre,nosuch", "A=1")
        done = self.run_script("variants", "lm-400m", "pre", "A=0,1", "MS=160,168", "--turns", "2", "--steps", "3")
        (name, lines), = self.kept().items()
        self.assertRegex(name, r"^[\d-]+-variants-lm-400m\.jsonl$")
        self.assertEqual([(r["turn"], r["variant"]["A"], r["variant"]["MS"], r["ms"]) for r in lines],
                         [(t, a, m, float(m)) for t in (1, 2) for a in "01" for m in ("160", "168")])
        rows = [re.split(" {2,}", line) for line in done.stdout.splitlines()[2:6]]
        said = {variant: cells for scheme, variant, *cells in rows}
        self.assertEqual(said["A=0 MS=160"], ["160.00", "150.0 … 999.0"])  # of all steps of both turns
        self.assertEqual(said["A=1 MS=168"], ["168.00", "150.0 … 999.0", "+5.00 ± 0.00 %"])

    def losses(self, *arguments):
        return ["compare_losses", "lm-1.2b", "--text", "book.txt", "--kinds", "fused", *arguments]

    def test_losses(self):
        self.refuses("siamese: nosuch", "compare_losses", "nosuch", "--text", "book.txt")
        self.refuses("siamese: nosuch", *self.losses("--schemes", "pre,nosuch"))
        self.refuses("compare_losses: --text build: not a file", "compare_losses", "lm-1.2b", "--text", "build")
        self.refuses("compare_losses: --text none: no such file", "compare_losses", "lm-1.2b", "--text", "none")
        done = self.run_script(*self.losses("--seeds", "1", "2"))
        (name, lines), = self.kept().items()
        self.assertRegex(name, r"^[\d-]+-losses-lm-1\.2b\.jsonl$")
        self.assertTrue(done.stdout.endswith(f"raw lines: {self.results.resolve() / name}\n"), done.stdout)
        self.assertEqual([(r["seed"], r["deterministic"]) for r in lines], [(1, True), (2, True)])

    def test_a_run_fails(self):
        done = self.run_script(*self.losses("--seeds", "1", "8", "2"))
        (name, lines), = self.kept().items()
        self.assertEqual([r["seed"] for r in lines], [1])
        self.assertEqual(done.stderr.splitlines()[1:], [
            "compare_losses: siamese_hybrid fused, seed 8: status 1: siamese: out of luck",
            f"compare_losses: 1 of 3 runs are done; lines so far are in {self.results.resolve() / name}"])

    def test_interrupted(self):
        script, *arguments = self.losses("--seeds", "1", "9", "2")
        heeds = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background it may be ignored
        process = subprocess.Popen([sys.executable, self.bench / script, *arguments], cwd=self.root, text=True,
                                   stderr=subprocess.PIPE, preexec_fn=heeds)
        self.addCleanup(process.kill)
        self.assertIn("1/3", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        self.assertRegex(said, r"^compare_losses: interrupted: 1 of 3 runs are done; lines so far are in .*\n$")

    def test_summary(self):
        self.assertIn("summary.py: error: the following arguments are required", self.run_script("summary.py").stderr)
        self.refuses("summary: none: No such file", "summary.py", "none")
        self.refuses("summary: book.txt has no line", "summary.py", "book.txt")
        (self.root / "lines").write_text("".join(json.dumps(r) + "\n" for r in LINES[:7]))
        self.assertRegex(self.run_script("summary.py", "lines").stdout, r"pre +160\.0 +176\.0")


if __name__ == "__main__":
    unittest.main()
