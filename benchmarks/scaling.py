"""How time grows with the length of a row, its support, alpha and threads: tables and a picture.

    python benchmarks/scaling.py [--quick] [--picture docs/scaling.png] [--table docs/scaling.md]

Mappings, their gradients and their losses (with gradient), in nanoseconds per score. In each table
the number of scores is fixed, so a flat line means time proportional to it. Everything that shares
a row of a table is called in turn, again and again; the medians are reported. One thread, except
where threads are what varies. A peer that is installed (torch) is shown for comparison. The picture
needs the ``plot`` extra.
"""

import argparse
import os
import platform
import time
from pathlib import Path

# Spinning OpenMP workers would steal a core from whatever is timed after torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numba
import numpy as np

import sparsemap_np as sm

try:
    import torch
except ImportError:
    torch = None

MAPPINGS = {
    "sparsemax": (sm.sparsemax, sm.sparsemax_vjp, sm.sparsemax_loss, ()),
    "entmax15": (sm.entmax15, sm.entmax15_vjp, sm.entmax15_loss, ()),
    "entmax 1.25": (sm.entmax, sm.entmax_vjp, sm.entmax_loss, (1.25,)),
    "normmax 2": (sm.normmax_bisect, sm.normmax_bisect_vjp, sm.normmax_bisect_loss, (2.0,)),
}
KINDS = ("mapping", "gradient", "loss")
LENGTHS = (10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000)
SUPPORTS = (1, 3, 10, 30, 100, 300, 1000)
ALPHAS = (1.0, 1.01, 1.1, 1.25, 4 / 3, 1.5, 1.7, 2.0, 2.5, 3.0, 5.0, 10.0)


def calls_of(name, X):
    """Mapping, gradient and loss of one array of rows: kind -> call."""
    function, vjp, loss, parameters = MAPPINGS[name]
    P = function(X, *parameters)
    out = np.empty_like(X)
    dP = np.random.default_rng(1).normal(size=X.shape).astype(X.dtype)
    y = np.random.default_rng(2).integers(0, X.shape[1], len(X))
    return {
        "mapping": lambda: function(X, *parameters, out=out),
        "gradient": lambda: vjp(dP, P, *parameters),
        "loss": lambda: loss(X, y, *parameters, return_grad=True),
    }


def peers_of(X):
    """torch.softmax and its relatives under the same names, or nothing."""
    if torch is None:
        return {}
    tx = torch.from_numpy(X)
    soft = torch.softmax(tx, -1)
    cotangent = torch.randn_like(tx)
    y = torch.randint(0, X.shape[1], (len(X),))

    def cross_entropy():
        leaf = tx.detach().requires_grad_()
        torch.nn.functional.cross_entropy(leaf, y).backward()

    return {
        "mapping": lambda: torch.softmax(tx, -1),
        "gradient": lambda: torch._softmax_backward_data(cotangent, soft, -1, soft.dtype),
        "loss": cross_entropy,
    }


def medians(calls, seconds):
    """Interleaved medians in seconds, at least three rounds."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while len(next(iter(times.values()))) < 3 or time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.median(t)) for name, t in times.items()}


def per_score(rows, seconds):
    """Nanoseconds per score of every mapping and kind: (name, kind) -> number."""
    calls = {(name, kind): call for name in MAPPINGS for kind, call in calls_of(name, rows).items()}
    calls |= {("torch softmax", kind): call for kind, call in peers_of(rows).items()}
    return {key: t / rows.size * 1e9 for key, t in medians(calls, seconds).items()}


def normal_rows(n, d, scale=1.0):
    return (np.random.default_rng(0).normal(size=(n, d)) * scale).astype(np.float32)


def rows_with_support(n, d, support):
    """Rows whose sparsemax has exactly ``support`` entries: near ties, all others far below."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) - 20.0
    for row in X:
        row[rng.choice(d, support, replace=False)] = rng.uniform(0, 0.5 / support, support)
    return X.astype(np.float32)


def against_length(total, seconds):
    return {d: per_score(normal_rows(max(1, total // d), d), seconds) for d in LENGTHS}


def against_support(total, seconds):
    d = 1000
    return {s: per_score(rows_with_support(total // d, d, s), seconds) for s in SUPPORTS}


def against_alpha(total, seconds):
    """The kinds side by side, for one shape of general alpha."""
    X = normal_rows(total // 1000, 1000)
    dP = np.random.default_rng(1).normal(size=X.shape).astype(X.dtype)
    y = np.random.default_rng(2).integers(0, X.shape[1], len(X))
    found = {}
    for alpha in ALPHAS:
        P = sm.entmax(X, alpha)
        out = np.empty_like(X)
        calls = {
            ("entmax", "mapping"): lambda a=alpha, out=out: sm.entmax(X, a, out=out),
            ("entmax", "gradient"): lambda a=alpha, P=P: sm.entmax_vjp(dP, P, a),
            ("entmax", "loss"): lambda a=alpha: sm.entmax_loss(X, y, a, return_grad=True),
        }
        if alpha > 1:
            calls |= {
                ("normmax", "mapping"): lambda a=alpha, out=out: sm.normmax_bisect(X, a, out=out)
            }
        found[round(alpha, 3)] = {k: t / X.size * 1e9 for k, t in medians(calls, seconds).items()}
    return found


def against_threads(total, seconds):
    X = normal_rows(total // 1000, 1000)
    most = numba.config.NUMBA_NUM_THREADS
    counts = sorted({1, 2, 4, 8, 16, 32, 64, most} & set(range(1, most + 1)))
    found = {}
    for count in counts:
        numba.set_num_threads(count)
        if torch is not None:
            torch.set_num_threads(count)
        found[count] = per_score(X, seconds)
    return found


def table(title, label, found):
    """One Markdown table for each kind that was timed."""
    lines = [f"## {title}"]
    for kind in KINDS:
        names = dict.fromkeys(n for t in found.values() for n, k in t if k == kind)
        if not names:
            continue
        lines += ["", f"### {kind}", "", f"| {label} | " + " | ".join(names) + " |"]
        lines.append("| ---: " * (len(names) + 1) + "|")
        for x, times in found.items():
            cells = (f"{times[n, kind]:.2f}" if (n, kind) in times else "" for n in names)
            lines.append(f"| {x:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(path, panels):
    """One panel for each table: the mappings solid, gradients dashed, losses dotted."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    styles = {"mapping": "-", "gradient": "--", "loss": ":"}
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.4), layout="constrained")
    colours = {}
    for axis, (title, label, found) in zip(axes.flat, panels, strict=True):
        for name, kind in dict.fromkeys(key for times in found.values() for key in times):
            colour = colours.setdefault(name, f"C{len(colours)}")
            points = [(x, times[name, kind]) for x, times in found.items() if (name, kind) in times]
            axis.plot(*zip(*points, strict=True), styles[kind], color=colour, marker=".", ms=4)
        axis.set(title=title, xlabel=label, ylabel="ns a score", xscale="log", yscale="log")
        if label in ("alpha", "threads"):
            axis.set_xticks(
                list(found), [f"{x:g}" for x in found], rotation=90 * (label == "alpha")
            )
            axis.minorticks_off()
    lines = [plt.Line2D([], [], color=c, label=n) for n, c in colours.items()]
    lines += [plt.Line2D([], [], color="grey", ls=s, label=k) for k, s in styles.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the scores and the time")
    parser.add_argument("--picture", type=Path, help="where to draw the picture")
    parser.add_argument("--table", type=Path, help="where to write the tables, besides the screen")
    options = parser.parse_args()
    total, seconds = (200_000, 0.05) if options.quick else (2_000_000, 0.5)
    numba.set_num_threads(1)
    if torch is not None:
        torch.set_num_threads(1)
    head = (
        f"Nanoseconds a score, float32, {total:,} standard normal scores, one thread of "
        f"{platform.processor() or platform.machine()} ({os.cpu_count()} cores), "
        f"Numba {numba.__version__}: `python benchmarks/scaling.py`.\n"
    )
    panels = [
        ("Length of a row", "d", against_length(total, seconds)),
        ("Support of a row of 1000", "support", against_support(total, seconds)),
        ("Alpha, rows of 1000", "alpha", against_alpha(total, seconds)),
        ("Threads, rows of 1000", "threads", against_threads(total, seconds)),
    ]
    text = "\n".join([head, *(table(*panel) for panel in panels)])
    print(text)
    if options.table:
        options.table.write_text(text)
    if options.picture:
        draw(options.picture, panels)


if __name__ == "__main__":
    main()
