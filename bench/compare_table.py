"""The table of bench/compare from its JSON lines: those with "peer" are PyTorch's, the others the product's. Lines of
earlier files may lack `mode` and `deterministic`."""


def best_peer(lines, workload, scheme):
    """The faster of the peer's modes, or None."""
    rows = [r for r in lines if "peer" in r and r["workload"] == workload and r["scheme"] == scheme and "ms" in r]
    return min(rows, key=lambda r: r["ms"], default=None)


def product_rows(lines, workload):
    return [r for r in lines if "peer" not in r and r["workload"] == workload and "ms" in r]


def turn_of(row):
    return row.get("turn"), row.get("deterministic")


def cells(row, lines):
    """One line of the table."""
    workload, scheme = row["workload"], row["scheme"]
    peer = best_peer(lines, workload, scheme)
    # Overhead is against the product's own pre of the same turn.
    base = next((r for r in product_rows(lines, workload) if r["scheme"] == "pre" and turn_of(r) == turn_of(row)), None)
    ratio = lambda a, b: f"{a / b:.3f}x" if a and b else ""
    return [
        scheme,
        "yes" if row.get("deterministic") else "no",
        f"{peer['ms']:.1f}" if peer else "",
        peer.get("mode", "") if peer else "",
        f"{row['ms']:.1f}",
        ratio(peer["ms"], row["ms"]) if peer else "",
        f"{100 * (row['ms'] / base['ms'] - 1):+.1f} %" if base and base is not row else "",
        f"{peer['peak_gb']:.1f}" if peer and peer.get("peak_gb") else "",
        f"{row['peak_gb']:.1f}" if row.get("peak_gb") else "",
        ratio(row.get("peak_gb"), peer.get("peak_gb")) if peer else "",
        f"turn {row['turn']}" if "turn" in row else "",
    ]


HEADER = ["scheme", "deterministic", "peer ms", "mode", "here ms", "peer / here", "over own pre", "peer GiB", "here GiB", "memory", ""]


def columns(table, left):
    """As text; the columns in `left` begin at the left."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    put = lambda i, cell: cell.ljust(widths[i]) if i in left else cell.rjust(widths[i])
    return "\n".join("  ".join(put(i, cell) for i, cell in enumerate(row)).rstrip() for row in table)


def render(lines, workload):
    table = [HEADER] + [cells(row, lines) for row in product_rows(lines, workload)]
    text = columns(table, (0, 3))
    failed = [f"{r['scheme']} {r.get('mode', '')}: {r['error']}" for r in lines if "error" in r and r["workload"] == workload]
    return text + "".join("\nthe peer failed: " + f for f in failed)
