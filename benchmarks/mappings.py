"""The mappings, their gradients and losses beside the peers, in one interleaved run, as ratios.

    python benchmarks/mappings.py [--quick] [--threads N] [--what forward|backward|loss|axis|all]

Peers: ``torch.softmax`` (and its backward, and ``cross_entropy``), deep-spin/entmax (best of the
full sort and ``k``; 25 bisection steps in float32, 50 in float64), ``scipy.special.softmax`` and
``np.copyto`` as the floor. Every candidate of a cell is called in turn, again and again, and the
medians are divided by torch.softmax's. ``--what axis`` divides the time along axis 0 of an (n, d)
array by that of the same rows along the last axis. Needs the ``bench`` extra.
"""

import argparse
import os
import time
from functools import partial

# Spinning OpenMP workers would steal a core from whatever is timed after torch.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import scipy.special
import torch

import sparsemap_np as sm

try:
    import entmax as peer
except ImportError:
    peer = None

SHAPES = ((20000, 10), (8192, 128), (8192, 512), (2048, 1000), (256, 32000), (64, 128000))
TENSOR = (32, 12, 128, 128)
ACROSS = (*SHAPES[:-1], (10, 20000), (128, 8192), (1000, 2048), (32000, 256))
SCALES = (0.1, 1.0, 5.0)
ALPHAS = (1.25, 4 / 3, 1.7, 3.0)
WHATS = ("forward", "backward", "loss", "axis", "all")


def forward(X, tx, out):
    """Name -> call, for one array."""
    n_iter = 25 if X.dtype == np.float32 else 50
    d = X.shape[-1]
    # Fresh pages for a result can take ten times as long as a softmax: nobody is given any.
    soft = torch.empty_like(tx)
    calls = {
        "torch.softmax": lambda: torch.softmax(tx, -1, out=soft),
        "copyto": lambda: np.copyto(out, X),
        "scipy.softmax": lambda: scipy.special.softmax(X, axis=-1),
        "sparsemax": lambda: sm.sparsemax(X, out=out),
        "entmax15": lambda: sm.entmax15(X, out=out),
        "alpha=1": lambda: sm.entmax(X, 1.0, out=out),
        **{f"alpha={a:.4g}": lambda a=a: sm.entmax(X, a, out=out) for a in ALPHAS},
        "normmax 2": lambda: sm.normmax_bisect(X, 2.0, out=out),
        "normmax 5": lambda: sm.normmax_bisect(X, 5.0, out=out),
        "budget d/10": lambda: sm.budget_bisect(X, d / 10, out=out),
    }
    if peer is not None:
        calls |= {
            "peer sparsemax": lambda: peer.sparsemax(tx, -1),
            "peer sparsemax k": lambda: peer.sparsemax(tx, -1, k=min(d, 100)),
            "peer entmax15": lambda: peer.entmax15(tx, -1),
            "peer entmax15 k": lambda: peer.entmax15(tx, -1, k=min(d, 512)),
            "peer alpha=1.25": lambda: peer.entmax_bisect(tx, 1.25, -1, n_iter),
            "peer normmax 2": lambda: peer.normmax_bisect(tx, 2.0, -1, n_iter),
            "peer budget": lambda: peer.budget_bisect(tx, d / 10, -1, n_iter),
        }
    return calls


def backward(X, tx, out):
    dP = np.random.default_rng(1).normal(size=X.shape).astype(X.dtype)
    td = torch.from_numpy(dP)
    soft = torch.softmax(tx, -1)
    P = {name: getattr(sm, name)(X) for name in ("sparsemax", "entmax15", "normmax_bisect")}
    P17 = sm.entmax(X, 1.7)
    return {
        "torch.softmax": lambda: torch._softmax_backward_data(td, soft, -1, soft.dtype),
        "sparsemax": lambda: sm.sparsemax_vjp(dP, P["sparsemax"]),
        "entmax15": lambda: sm.entmax15_vjp(dP, P["entmax15"]),
        "alpha=1.7": lambda: sm.entmax_vjp(dP, P17, 1.7),
        "normmax 2": lambda: sm.normmax_bisect_vjp(dP, P["normmax_bisect"], 2.0),
    }


def losses(X, tx, out):
    y = np.random.default_rng(2).integers(0, X.shape[1], len(X))
    ty = torch.from_numpy(y)

    def cross_entropy():
        leaf = tx.detach().requires_grad_()
        torch.nn.functional.cross_entropy(leaf, ty).backward()

    options = {"reduction": "mean", "return_grad": True}
    return {
        "torch.softmax": cross_entropy,  # the yardstick of this table
        "sparsemax": lambda: sm.sparsemax_loss(X, y, **options),
        "entmax15": lambda: sm.entmax15_loss(X, y, **options),
        "alpha=1": lambda: sm.entmax_loss(X, y, 1.0, **options),
        "alpha=1.7": lambda: sm.entmax_loss(X, y, 1.7, **options),
        "normmax 2": lambda: sm.normmax_bisect_loss(X, y, 2.0, **options),
    }


def medians(calls, seconds):
    """Interleaved medians; slow peers get fewer rounds, and nobody fewer than three."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 3 or time.perf_counter() < end and rounds < 50:
        for name, call in calls.items():
            if rounds >= 3 and times[name][0] > seconds / 10:
                continue
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: float(np.median(t)) for name, t in times.items()}


def table(title, make, shapes, seconds, skip_peers):
    ratios = {}
    print(f"\n## {title}: time / torch's, {torch.get_num_threads()} threads")
    for shape in shapes:
        for dtype in (np.float32, np.float64):
            for scale in SCALES:
                X = (np.random.default_rng(0).normal(size=shape) * scale).astype(dtype)
                calls = make(X, torch.from_numpy(X), np.empty_like(X))
                if skip_peers:
                    calls = {k: v for k, v in calls.items() if not k.startswith(("peer", "scipy"))}
                t = medians(calls, seconds)
                base = t.pop("torch.softmax")
                cells = "  ".join(f"{name} {value / base:.2f}" for name, value in t.items())
                label = f"{'x'.join(map(str, shape))} {X.dtype.name} x{scale:g}"
                print(f"{label:32s} {base * 1e3:8.2f} ms  {cells}", flush=True)
                for name, value in t.items():
                    ratios.setdefault(name, []).append(value / base)
    summary(ratios)


def summary(ratios):
    print("geometric mean / worst cell")
    for name, values in ratios.items():
        print(f"  {name:18s} {np.exp(np.mean(np.log(values))):8.2f} {max(values):8.2f}")


def both_ways(X):
    """(name, axis) -> call: along axis 0, and the same rows along the last axis."""
    calls = {}
    for axis, A in ((0, X), (-1, np.ascontiguousarray(X.T))):
        out = np.empty_like(A)
        for name in ("sparsemax", "entmax15"):
            P = getattr(sm, name)(A, axis=axis)
            calls[name, axis] = partial(getattr(sm, name), A, axis=axis, out=out)
            calls[f"{name} vjp", axis] = partial(getattr(sm, f"{name}_vjp"), A, P, axis=axis)
    return calls


def across(seconds):
    """Rows that lie across the memory beside the same rows in one piece."""
    print("\n## axis 0 of (n, d): time / the same work along the last axis")
    ratios = {}
    for shape in ACROSS:
        for dtype in (np.float32, np.float64):
            t = medians(
                both_ways(np.random.default_rng(0).normal(size=shape).astype(dtype)), seconds
            )
            found = {name: t[name, 0] / t[name, -1] for name, axis in t if axis}
            cells = "  ".join(f"{name} {value:.2f}" for name, value in found.items())
            label = f"{'x'.join(map(str, shape))} {np.dtype(dtype).name}"
            print(f"{label:24s} {t['sparsemax', -1] * 1e3:8.2f} ms  {cells}", flush=True)
            for name, value in found.items():
                ratios.setdefault(name, []).append(value)
    summary(ratios)


def small():
    """One row of ten scores from Python, in microseconds."""
    x = np.random.default_rng(0).normal(size=10)
    tx = torch.from_numpy(x)
    calls = {
        "sparsemax": lambda: sm.sparsemax(x),
        "entmax15": lambda: sm.entmax15(x),
        "entmax 1.7": lambda: sm.entmax(x, 1.7),
        "scipy.softmax": lambda: scipy.special.softmax(x),
        "torch.softmax": lambda: torch.softmax(tx, -1),
    }
    print("\n## one row of 10 scores, us a call")
    for name, call in calls.items():
        call()
        best = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(2000):
                call()
            best.append((time.perf_counter() - start) / 2000 * 1e6)
        print(f"  {name:18s} {np.median(best):8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no peers but torch, short rounds")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--what", default="all", choices=WHATS)
    options = parser.parse_args()
    if options.threads:
        import numba

        torch.set_num_threads(options.threads)
        numba.set_num_threads(options.threads)
    seconds = 0.15 if options.quick else 1.0
    shapes = SHAPES if options.quick else (*SHAPES, TENSOR)
    if options.what in ("forward", "all"):
        table("forward", forward, shapes, seconds, options.quick)
    if options.what in ("backward", "all"):
        table("vjp", backward, SHAPES, seconds, options.quick)
    if options.what in ("loss", "all"):
        table("loss and gradient", losses, SHAPES, seconds, options.quick)
    if options.what in ("axis", "all"):
        across(seconds)
    if options.what == "all":
        small()


if __name__ == "__main__":
    main()
