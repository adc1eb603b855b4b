"""The main job on real data: sparse and dense classifiers on scikit-learn's digits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsemap_np import EntmaxClassifier, FenchelYoungClassifier, SparsemaxClassifier
from sparsemap_np._show_versions import installed_versions

# Strong enough a penalty that a handful of test digits stay in doubt.
_C = 0.02
_SHOWN = 4


def _classifiers() -> dict[str, Any]:
    return {
        "sparsemax": SparsemaxClassifier(C=_C),
        "entmax (alpha=1.5)": EntmaxClassifier(alpha=1.5, C=_C),
        "logistic": FenchelYoungClassifier("logistic", C=_C),
    }


@contextmanager
def _step(text: str) -> Iterator[None]:
    """Say what runs and for how long: plain lines, so that it reads well in a log too."""
    print(text, end=" ... ", flush=True)
    start = time.perf_counter()
    yield
    print(f"done in {time.perf_counter() - start:.1f} s", flush=True)


def _non_zeros(probabilities: np.ndarray, classes: np.ndarray) -> str:
    order = np.argsort(-probabilities, kind="stable")
    held = [f"{classes[j]}: {probabilities[j]:.2f}" for j in order if probabilities[j] > 0]
    return "{" + ", ".join(held) + "}"


def main() -> None:
    """Fit, compare and print."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=0
    )
    print(
        f"Digits: {len(X_train)} images to learn from, {len(X_test)} to test, "
        f"{X.shape[1]} pixels, {len(np.unique(y))} classes"
    )
    models, seconds = {}, {}
    classifiers = _classifiers()
    with _step("Compiling the kernels, unless they are in the cache"):
        for classifier in classifiers.values():
            model = make_pipeline(StandardScaler(), clone(classifier))
            model.fit(X_train, y_train).predict_proba(X_train)
    for number, (name, classifier) in enumerate(classifiers.items(), start=1):
        with _step(f"[{number}/{len(classifiers)}] fitting {name}"):
            start = time.perf_counter()
            models[name] = make_pipeline(StandardScaler(), classifier).fit(X_train, y_train)
            seconds[name] = time.perf_counter() - start

    print(f"\n{'':20}{'accuracy':>10}{'classes with p > 0':>21}{'fit time':>11}")
    for name, model in models.items():
        support = np.count_nonzero(model.predict_proba(X_test), axis=1).mean()
        accuracy = model.score(X_test, y_test)
        print(f"{name:20}{accuracy:>10.3f}{support:>21.2f}{seconds[name]:>9.2f} s")

    sparse = models["sparsemax"]
    P = sparse.predict_proba(X_test)
    doubtful = np.flatnonzero(np.count_nonzero(P, axis=1) > 1)[: _SHOWN - 1]
    certain = np.flatnonzero(np.count_nonzero(P, axis=1) == 1)[:1]
    print("\nSome predictions of the sparsemax classifier; classes not shown have p = 0 exactly:")
    for i in [*certain, *doubtful]:
        print(f"  digit {y_test[i]}  {_non_zeros(P[i], sparse.classes_)}")
    dense = models["logistic"].predict_proba(X_test)[certain[0]]
    print(
        f"  Of the first, softmax says {dense.max():.2f} and spreads the rest over "
        f"{np.count_nonzero(dense) - 1} classes."
    )
    versions = installed_versions(("sparsemap_np", "numpy", "scipy", "numba", "scikit-learn"))
    print("\n" + ", ".join(f"{name} {number}" for name, number in versions.items()))
