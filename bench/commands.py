"""What the scripts of bench share: commands that print JSON lines, files that keep them, and errors in one line."""
import datetime
import itertools
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# What bench/peer_gpu.py times; it cannot be asked where there is no PyTorch.
PEER_MODES = ("eager", "compile", "compile-bf16")
PEER_SCHEMES = {"lm-400m": ("pre", "siamese", "siamese_hybrid"), "lm-1.2b": ("pre", "siamese", "siamese_hybrid"),
                "deit-s": ("pre", "siamese"), "dit-b2": ("pre", "siamese")}


def fail(message):
    """Ends the script that was run; its name comes first."""
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}")


def check_words(what, words, known):
    for word in words:
        if word not in known:
            fail(f"{what} must be one of {', '.join(known)}, not '{word}'")


def positive(text):
    """For argparse."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def seconds(text):
    """For argparse: a rest, or how long to measure."""
    if not 0 <= float(text) <= 600:
        raise ValueError
    return float(text)


def python_with_torch():
    found = subprocess.run([HERE.parent / "scripts/python-with-torch"], capture_output=True, text=True)
    if found.returncode != 0:
        if not os.path.exists("/dev/nvidiactl"):
            fail("there is no NVIDIA GPU here")
        fail("no Python with PyTorch 2.11: activate one, or `make bench` installs it into .venv-bench")
    return found.stdout.strip()


def set_options(sets):
    return [part for each in sets for part in ("--set", each)]


def check_recipe(siamese, recipe, sets):
    """What the product refuses ends the script at once and in the product's words, not after the first measurements."""
    try:
        done = subprocess.run([siamese, "recipe", recipe, *set_options(sets)], capture_output=True, text=True)
    except OSError as e:
        fail(f"cannot run {siamese}: {e.strerror} (`make build` makes the product, --siamese names another)")
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or f"{siamese} recipe {recipe}: status {done.returncode}")


class Log:
    """JSON lines in a file of their own under bench/results, <date>-<name>.jsonl, then -2, -3 …; it is there from the
    first line on, so that a command that fails before leaves none."""

    def __init__(self, recipe, before=""):
        self.name = before + pathlib.Path(recipe).name.removesuffix(".yaml")
        self.folder, self.path = HERE / "results", None
        self.folder.mkdir(exist_ok=True)
        if not os.access(self.folder, os.W_OK):  # said now, not when the first line is measured
            fail(f"{self.folder}: cannot write there")

    def add(self, row):
        """Kept at once."""
        if not self.path:
            self.path = self.new_file()
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")

    def new_file(self):
        for number in itertools.count(1):
            ending = f"-{number}" if number > 1 else ""
            path = self.folder / f"{datetime.date.today()}-{self.name}{ending}.jsonl"
            try:
                path.touch(exist_ok=False)
                return path
            except FileExistsError:
                pass

    def so_far(self):
        """The end of an error's line."""
        return f"; lines so far are in {self.path}" if self.path else ""


def json_lines(command, log, more=None):
    """Runs a command whose output is JSON lines; each is kept, with `more` added, as soon as it is there."""
    print("$", *command, file=sys.stderr)
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            rows.append(json.loads(line) | (more or {}))
            log.add(rows[-1])
            print(line, end="", file=sys.stderr)
    if process.returncode != 0:
        fail(f"{command[0]} failed with status {process.returncode}{log.so_far()}")
    if not rows:
        fail(f"{command[0]} printed no JSON lines{log.so_far()}")
    return rows


def read_lines(path):
    """The JSON lines of a file; what else it has is left out."""
    rows = []
    try:
        with open(path, errors="replace") as file:
            for number, line in enumerate(file, 1):
                if line.startswith("{"):
                    rows.append(json.loads(line))
    except OSError as e:
        fail(f"{path}: {e.strerror}")
    except ValueError:
        fail(f"{path}: line {number} is not JSON")
    return rows
