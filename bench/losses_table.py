"""The tables of bench/compare_losses from its JSON lines, a training run each."""
import math
import statistics

from compare_table import columns

MEASURES = ("validation_loss", "mean_of_last_20")


def differences(lines, scheme, kind, measure):
    """Of `kind` from `plain` of the same seed, relative, by seed."""
    by = {(r["seed"], r["kind"]): r[measure] for r in lines if r["scheme"] == scheme}
    return {seed: by[seed, kind] / by[seed, "plain"] - 1 for seed, k in by if k == kind and (seed, "plain") in by}


def percent(value):
    return f"{100 * value:+.2f} %"


def mean_and_error(values):
    if len(values) < 2:
        return percent(values[0])
    return f"{percent(statistics.mean(values))} ± {100 * statistics.stdev(values) / math.sqrt(len(values)):.2f}"


def render(lines):
    runs = [["scheme", "seed", "kind", "validation", "over plain", "last 20", "over plain", "losses"]]
    for r in sorted(lines, key=lambda r: (r["scheme"], r["seed"])):
        row = [r["scheme"], str(r["seed"]), r["kind"]]
        for measure in MEASURES:
            over = differences(lines, r["scheme"], r["kind"], measure).get(r["seed"]) if r["kind"] != "plain" else None
            row += [f"{r[measure]:.4f}", "" if over is None else percent(over)]
        runs.append(row + [r["losses_sha256"]])
    means = [["scheme", "kind", "seeds", "validation over plain", "last 20 over plain"]]
    for scheme, kind in dict.fromkeys((r["scheme"], r["kind"]) for r in lines if r["kind"] != "plain"):
        over = [list(differences(lines, scheme, kind, measure).values()) for measure in MEASURES]
        if over[0]:
            means.append([scheme, kind, str(len(over[0])), *map(mean_and_error, over)])
    text = columns(runs, range(len(runs[0])))
    if len(means) > 1:
        text += "\n\n" + columns(means, range(len(means[0])))
    for r in lines:
        for other in lines:
            if r["kind"] == "twice-1" and other["kind"] == "twice-2" and (r["scheme"], r["seed"]) == (other["scheme"], other["seed"]):
                same = r["losses_sha256"] == other["losses_sha256"]
                text += f"\n{r['scheme']}, seed {r['seed']}, twice: losses {'are the same' if same else 'DIFFER'}"
    return text
