"""Fits beside LogisticRegression's, each timed to the same relative gap to its own optimum.

    python benchmarks/fit.py [--quick] [--only NAME ...] [--data FOLDER] [--memory]

LogisticRegression stands for the fastest of its solvers lbfgs, newton-cg and newton-cholesky, with
one BLAS thread or all: NumPy's and SciPy's OpenBLAS pools spin against each other, and which is
faster depends on the data. The optimum of each loss is computed once. For each contender the
fewest iterations that come within 1e-6 of it (relative) are searched for, and fits of so many
iterations are timed in turn; the medians are compared.

``--data`` names a folder with emotions.npz, yeast.npz and birds.npz (X_train, Y_train). There the
peer is the FYClassifier of fenchel-young-losses, which is on no package index: it is written here
again from its formulas, with its objective (the intercept is penalised) and its L-BFGS settings.
We are timed to an objective no higher than the one that it reaches, and to the gap of 1e-6.
"""

import argparse
import gc
import importlib
import inspect
import os
import pkgutil
import time
import tracemalloc
import warnings
from contextlib import ExitStack, nullcontext
from unittest import mock

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sparsemap_np import FenchelYoungClassifier
from sparsemap_np.linear_model._curvature import Curvature
from sparsemap_np.linear_model._near import NearClasses
from sparsemap_np.linear_model._objective import LinearObjective
from sparsemap_np.linear_model._one_block import OneBlock
from sparsemap_np.linear_model._row_space import _Space

GAP = 1e-6
LOSSES = ("sparsemax", "entmax15", "logistic")
# LogisticRegression's newton-cholesky holds a dense Hessian.
MOST_FOR_CHOLESKY = 3000


# Data


def digits():
    X, y = load_digits(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def blobs(n, d, k):
    return make_classification(
        n, d, n_informative=min(d // 2, 60), n_redundant=10, n_classes=k,
        n_clusters_per_class=1, random_state=0,
    )  # fmt: skip


def docstrings():
    """Docstrings of scipy and scikit-learn, to be told apart by subpackage."""
    documents = {}
    for package in ("scipy", "sklearn"):
        root = importlib.import_module(package)
        for module in pkgutil.iter_modules(root.__path__):
            if module.name.startswith("_") or module.name in ("conftest", "tests", "setup"):
                continue
            name = f"{package}.{module.name}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                members = vars(importlib.import_module(name))
            for key, value in sorted(members.items()):
                text = inspect.getdoc(value) if callable(value) else None
                if text and not key.startswith("_") and len(text) > 100:
                    documents[(name, key)] = text
    names = [name for name, _ in documents]
    kept = {name for name in names if names.count(name) >= 10}
    texts = [text for (name, _), text in documents.items() if name in kept]
    X = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return X, np.unique([name for name in names if name in kept], return_inverse=True)[1]


def sparse_synthetic(n=20000, d=100000, k=200):
    """Each feature speaks for one class."""
    rng = np.random.default_rng(0)
    X = sp.random(n, d, 1e-3, format="csr", random_state=rng)
    votes = sp.csr_array((np.ones(d), (np.arange(d), rng.integers(0, k, d))), shape=(d, k))
    return X, np.argmax((X @ votes).toarray() + 0.5 * rng.normal(size=(n, k)), axis=1)


DATA = {
    "digits": digits,
    "50000x100, 10 classes": lambda: blobs(50000, 100, 10),
    "20000x200, 100 classes": lambda: blobs(20000, 200, 100),
    "20000x200, 1000 classes": lambda: blobs(20000, 200, 1000),
    "docstrings": docstrings,
    "20000x100000 CSR, 200 classes": sparse_synthetic,
}
QUICK = ("digits", "docstrings")


# What is timed


def ours(loss, X, y, *, C=1.0, solver="auto", fit_intercept=True):
    def fit(n_iter):
        clf = FenchelYoungClassifier(
            loss, C=C, solver=solver, tol=1e-14, max_iter=n_iter, fit_intercept=fit_intercept
        ).fit(X, y)
        return clf.coef_, clf.intercept_

    return fit


def theirs(X, y, solver, threads):
    def fit(n_iter):
        with threadpool_limits(threads) if threads else nullcontext():
            clf = LogisticRegression(solver=solver, tol=1e-14, max_iter=n_iter).fit(X, y)
        return clf.coef_, clf.intercept_

    return fit


def objective(loss, X, y, coef, intercept, C=1.0):
    """Mean loss plus penalty, with as many rows at a time as fit 8 MB of scores."""
    clf = FenchelYoungClassifier(loss)
    value = 0.0
    rows = max(1, 2**20 // len(coef))
    for start in range(0, X.shape[0], rows):
        part = slice(start, start + rows)
        S = np.asarray(X[part] @ coef.T) + intercept
        value += float(clf._fenchel_young().loss(S, y[part], reduction="sum"))
    return (value + 0.5 / C * float(np.sum(coef**2))) / X.shape[0]


def fewest(fit, good, guess, most=3000):
    """About the fewest iterations that are good enough, None if `most` are not."""
    low, high, n = 0, None, guess
    while True:
        if good(fit(n)):
            high = n
        else:
            low = n
        if high is None:
            if n >= most:
                return None
            n = max(n + 1, int(n * 1.3))
        elif high - low <= max(1, high // 20):
            return high
        elif low == 0:
            n = min(high - 1, int(high * 0.8))
        else:
            n = (low + high) // 2


def seconds(fit, n):
    gc.collect()
    start = time.perf_counter()
    fit(n)
    return time.perf_counter() - start


def interleaved(contenders, repeats):
    """Median seconds of each ``name: (fit, n_iter)``, called in turn."""
    times = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, (fit, n) in contenders.items():
            times[name].append(seconds(fit, n))
    return {name: float(np.median(t)) for name, t in times.items()}


def peak(fit, n):
    gc.collect()
    tracemalloc.start()
    fit(n)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def share_read(curvature, _):
    """What part of the scores a product with the Hessian needs."""
    if not hasattr(curvature, "share"):
        lanes = curvature._objective.lanes
        size = sum(block.X.shape[0] for lane in lanes for block in lane.blocks)
        size *= curvature._objective.layout.n_outputs
        curvature.share = sum(find().slopes.size for lane in curvature._lanes for find in lane)
        curvature.share /= size
    return curvature.share


def share_listed(near, tiles, _):
    """What part of the classes lists hold."""
    objective = near._objective
    listed = sum(np.count_nonzero(tile.cols >= 0) for tile in tiles)
    return listed / (objective.n_samples * objective.layout.n_classes)


# What multiplies by X and by its transpose, and what part of the scores that takes.
PRODUCTS = (
    (LinearObjective, "_evaluate", lambda *_: 1.0),
    (NearClasses, "_over", share_listed),
    (OneBlock, "over", lambda self, block, _: len(block.X) / len(self.block.X)),
    (_Space, "image", lambda *_: 1.0),
    (Curvature, "product", share_read),
)


def passes(fit, n):
    """Products with X or its transpose, in units of all rows and classes."""
    count = [0.0]

    def counted(method, share):
        def call(self, *args, **options):
            count[0] += 2 * share(self, *args)
            return method(self, *args, **options)

        return call

    with ExitStack() as patches:
        for owner, name, share in PRODUCTS:
            method = counted(getattr(owner, name), share)
            patches.enter_context(mock.patch.object(owner, name, method))
        fit(n)
    return count[0]


# Against LogisticRegression


def fastest_logistic_regression(X, y, best, most_threads):
    """Name, fit and iterations of the solver that comes close to the optimum first."""
    n_parameters = (X.shape[1] + 1) * (1 if y.max() == 1 else y.max() + 1)
    guesses = {"lbfgs": 80, "newton-cg": 7}
    if n_parameters <= MOST_FOR_CHOLESKY:
        guesses["newton-cholesky"] = 6
    found = {}
    for solver, guess in guesses.items():
        fit = theirs(X, y, solver, 1)
        n = fewest(fit, lambda w: objective("logistic", X, y, *w) <= best * (1 + GAP), guess)
        if n is not None:
            for threads in (1, None) if most_threads > 1 else (1,):
                fit = theirs(X, y, solver, threads)
                label = f"{solver}, {'one BLAS thread' if threads else 'all BLAS threads'}"
                found[label] = (seconds(fit, n), fit, n)
                print(f"  LogisticRegression {label}: {n} iterations, {found[label][0]:.3f} s")
    name = min(found, key=lambda key: found[key][0])
    return name, found[name][1], found[name][2]


def against_logistic_regression(name, make, options):
    X, y = make()
    print(f"\n## {name}: {X.shape[0]} x {X.shape[1]}, {y.max() + 1} classes", flush=True)
    contenders, solvers = {}, options.solvers
    for loss in options.losses:
        best = objective(loss, X, y, *ours(loss, X, y)(options.most))
        for solver in solvers:
            fit = ours(loss, X, y, solver=solver)
            n = fewest(
                fit,
                lambda w, loss=loss, best=best: objective(loss, X, y, *w) <= best * (1 + GAP),
                6 if solver == "newton" else 30,
            )
            if n is not None:
                contenders[f"{loss} {solver}"] = (fit, n)
            else:
                print(f"  {loss} {solver}: not reached")
        if loss == "logistic":
            logistic = best
    if "logistic" not in options.losses:
        logistic = objective("logistic", X, y, *ours("logistic", X, y)(options.most))
    label, fit, n = fastest_logistic_regression(X, y, logistic, options.blas_threads)
    contenders["LogisticRegression"] = (fit, n)
    times = interleaved(contenders, options.repeats)
    base = times["LogisticRegression"]
    print(f"  fastest LogisticRegression: {label}")
    base_memory = peak(*contenders["LogisticRegression"]) if options.memory else None
    for key, (fit, n) in contenders.items():
        line = f"  {key:24s} {n:5d} iterations {times[key]:8.3f} s  {times[key] / base:6.2f} x"
        if key != "LogisticRegression":
            line += f"  {passes(fit, n):7.1f} passes over X"
        if options.memory:
            memory = peak(fit, n)
            line += f"  {memory:7.0f} MB  {memory / base_memory:5.2f} x"
        print(line, flush=True)


# Against fenchel-young-losses


def projected(theta):
    """Sparsemax by a full sort of every row."""
    ordered = -np.sort(-theta, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    ranks = np.arange(1, theta.shape[1] + 1)
    size = np.count_nonzero(ordered * ranks > excess, axis=1)
    tau = excess[np.arange(len(theta)), size - 1] / size
    return np.maximum(theta - tau[:, None], 0)


def softmax(theta):
    e = np.exp(theta - theta.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def tsallis15(theta, steps=20, tol=1e-3):
    """1.5-entmax by bisection, a row at a time, to the peer's tolerance."""
    P = np.zeros_like(theta)
    low = theta.max(axis=1)
    high = theta.max(axis=1) + 2 - 2 / np.sqrt(theta.shape[1])
    for i, row in enumerate(theta):
        a, b = low[i], high[i]
        for _ in range(steps):
            t = (a + b) / 2
            P[i] = np.maximum(1 + 0.5 * (row - t), 0) ** 2
            excess = P[i].sum() - 1
            a, b = (a, t) if excess < 0 else (t, b)
            if abs(excess) < tol:
                break
    return P


def negentropy(P):
    return np.sum(P * np.log(P, out=np.zeros_like(P), where=P > 0), axis=1)


PEER = {
    "logistic": (softmax, negentropy),
    "sparsemax": (projected, lambda P: 0.5 * np.sum(P**2, axis=1) - 0.5),
    "entmax15": (tsallis15, lambda P: (np.sum(P**1.5, axis=1) - 1) / 0.75),
}


def fy_classifier(loss, X, Y, penalty, max_iter=100):
    predict, omega = PEER[loss]
    shape = Y.shape[1], X.shape[1]

    def value_and_gradient(w):
        W = w.reshape(shape)
        theta = X @ W.T
        P = predict(theta)
        values = np.sum(theta * P, axis=1) - omega(P) + omega(Y) - np.sum(Y * theta, axis=1)
        gradient = P.T @ X - Y.T @ X + penalty * W
        return values.sum() + 0.5 * penalty * np.sum(W**2), gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    result = minimize(
        value_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter}
    )
    return result.x.reshape(shape), result.nit


def against_fy_classifier(folder, name, options):
    with np.load(os.path.join(folder, f"{name}.npz")) as held:
        X, Y = held["X_train"].astype(float), held["Y_train"].astype(float)
    X, Y = X[Y.any(axis=1)], Y[Y.any(axis=1)]
    X = np.c_[StandardScaler().fit_transform(X), np.ones(len(X))]
    Y /= Y.sum(axis=1, keepdims=True)
    print(f"\n## {name}: {X.shape[0]} x {X.shape[1]}, {Y.shape[1]} classes, proportions")
    for loss in options.losses:
        fit = ours(loss, X, Y, fit_intercept=False, solver="auto")
        with threadpool_limits(1):
            coef, n_peer = fy_classifier(loss, X, Y, 1.0)
        reached = objective(loss, X, Y, coef, 0.0)
        best = objective(loss, X, Y, *ours(loss, X, Y, fit_intercept=False)(options.most))
        goals = {"its objective": reached, f"a gap of {GAP:g}": best * (1 + GAP)}
        fits = {}
        for label, goal in goals.items():
            n = fewest(fit, lambda w, loss=loss, goal=goal: objective(loss, X, Y, *w) <= goal, 30)
            if n is not None:
                fits[label] = (fit, n)

        def peer(_, loss=loss):
            with threadpool_limits(1):
                fy_classifier(loss, X, Y, 1.0)

        times = interleaved({"peer": (peer, 0), **fits}, options.repeats)
        line = f"  {loss:10s} FYClassifier {n_peer:3d} iterations, gap {reached / best - 1:.1e}, "
        line += f"{times['peer']:.4f} s"
        for label, (_, n) in fits.items():
            line += f"; to {label}: {n} iterations, {times[label]:.4f} s, "
            line += f"{times['peer'] / times[label]:.1f} x faster"
        print(line, flush=True)


def against_predict_proba(options):
    """Sparse probabilities of 1000 classes beside the dense ones of LogisticRegression."""
    X, y = blobs(100000, 200, 1000)
    clf = FenchelYoungClassifier("sparsemax", max_iter=4).fit(X[:20000], y[:20000])
    dense = LogisticRegression(max_iter=1).fit(X[:20000], y[:20000])
    dense.coef_, dense.intercept_ = clf.coef_, clf.intercept_
    calls = {
        "predict_proba(sparse=True)": (lambda _: clf.predict_proba(X, sparse=True), 0),
        "LogisticRegression": (lambda _: dense.predict_proba(X), 0),
    }
    times = interleaved(calls, options.repeats)
    memory = {key: peak(*call) for key, call in calls.items()}
    print("\n## predict_proba, 100000 x 200, 1000 classes")
    for key, t in times.items():
        print(
            f"  {key:28s} {t:.3f} s  {t / times['LogisticRegression']:.2f} x  {memory[key]:.0f} MB"
            f"  {memory[key] / memory['LogisticRegression']:.3f} x",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small data sets, fewer rounds")
    parser.add_argument("--only", nargs="+", help="names of data sets, or parts of them")
    parser.add_argument("--data", help="folder with emotions.npz, yeast.npz, birds.npz")
    parser.add_argument("--memory", action="store_true", help="measure the peak of allocations")
    parser.add_argument("--repeats", type=int, default=None)
    parser.add_argument(
        "--blas-threads", type=int, default=os.cpu_count() or 1,
        help="1 leaves out LogisticRegression with all BLAS threads, for a machine that is shared",
    )  # fmt: skip
    parser.add_argument("--losses", nargs="+", default=LOSSES)
    parser.add_argument("--solvers", nargs="+", default=("auto",), help="auto, newton, lbfgs")
    options = parser.parse_args()
    options.repeats = options.repeats or (3 if options.quick else 5)
    options.most = 300
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, make in DATA.items():
        wanted = any(part in name for part in options.only) if options.only else True
        if wanted and (options.only or not options.quick or name in QUICK):
            against_logistic_regression(name, make, options)
    if options.data:
        for name in ("emotions", "yeast", "birds"):
            if not options.only or name in options.only:
                against_fy_classifier(options.data, name, options)
    if "predict_proba" in (options.only or ()) or not (options.only or options.quick):
        against_predict_proba(options)


if __name__ == "__main__":
    main()
