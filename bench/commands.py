"""What bench/compare and bench/compare_moe share: commands that print JSON lines, and files that keep them."""
import datetime
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def python_with_torch():
    found = subprocess.run([HERE.parent / "scripts/python-with-torch"], capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit("compare: no Python with PyTorch 2.11: activate one, or `make bench` installs it into .venv-bench")
    return found.stdout.strip()


def json_lines(command, log, more=None):
    """Runs a command whose output is JSON lines; each is kept, with `more` added, as soon as it is there."""
    print("$", " ".join(map(str, command)), file=sys.stderr)
    rows = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            rows.append(json.loads(line) | (more or {}))
            log.write(json.dumps(rows[-1]) + "\n")
            log.flush()
            print(line, end="", file=sys.stderr)
    if process.returncode != 0:
        if log.tell() == 0:
            pathlib.Path(log.name).unlink()
            sys.exit(f"compare: {command[0]} failed with status {process.returncode}")
        sys.exit(f"compare: {command[0]} failed with status {process.returncode}; lines so far are in {log.name}")
    return rows


def positive(text):
    """For argparse."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def results_file(workload):
    """A new one each time: <date>-<workload>.jsonl, then -2, -3 …"""
    stem = f"{datetime.date.today()}-{workload}"
    for number in range(1, 1000):
        path = HERE / "results" / (stem + (f"-{number}" if number > 1 else "") + ".jsonl")
        if not path.exists():
            return path
    sys.exit(f"compare: too many results of {stem}")
