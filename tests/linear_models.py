"""What the tests of the classifiers share: the list of models, and the objective they claim."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from sparsemap_np import (
    EntmaxClassifier,
    FenchelYoungClassifier,
    NormmaxClassifier,
    SparsemaxClassifier,
    entmax,
    entmax15,
    normmax_bisect,
    sparsemax,
)
from sparsemap_np.losses import (
    entmax15_loss,
    entmax_loss,
    normmax_bisect_loss,
    sparsemax_loss,
)

# name: (estimator, mapping, loss); every property below is tested on each.
MODELS = {
    "sparsemax": (SparsemaxClassifier(), sparsemax, sparsemax_loss),
    "entmax15": (FenchelYoungClassifier("entmax15"), entmax15, entmax15_loss),
    "entmax 1.3": (
        EntmaxClassifier(alpha=1.3),
        lambda X: entmax(X, alpha=1.3),
        lambda X, y, **options: entmax_loss(X, y, alpha=1.3, **options),
    ),
    "normmax 2": (
        NormmaxClassifier(),
        lambda X: normmax_bisect(X, alpha=2.0),
        lambda X, y, **options: normmax_bisect_loss(X, y, alpha=2.0, **options),
    ),
    "logistic": (
        FenchelYoungClassifier("logistic"),
        lambda X: entmax(X, alpha=1.0),
        lambda X, y, **options: entmax_loss(X, y, alpha=1.0, **options),
    ),
}

# Three pairs of points, one pair a class.
X6 = np.array([[0.0, 0.1], [0.2, 0.9], [1.0, 0.2], [0.9, 1.1], [2.0, 0.1], [2.1, 1.0]])
Y6 = np.array([0, 0, 1, 1, 2, 2])


def model(name, **params):
    """A fresh estimator of that name."""
    return clone(MODELS[name][0]).set_params(**params)


def full_scores(clf, X, coef=None, intercept=None):
    """Scores of all classes; two classes have the scores 0 and f."""
    coef = clf.coef_ if coef is None else coef
    intercept = clf.intercept_ if intercept is None else intercept
    scores = X @ coef.T + intercept
    return scores if scores.shape[1] > 1 else np.c_[np.zeros(len(scores)), scores]


def documented_objective(loss, X, y, coef, intercept, *, C=1.0, l1_ratio=0.0, sample_weight=None):
    """The objective as the documentation states it, from the public loss, all rows at once."""
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    scores = X @ coef.T + intercept
    if scores.shape[1] == 1:
        scores = np.c_[np.zeros(len(scores)), scores]
    fit = np.sum(weight * loss(scores, y)) / weight.sum()
    penalty = 0.5 * (1 - l1_ratio) * np.sum(coef**2) + l1_ratio * np.abs(coef).sum()
    return fit + penalty / (C * weight.sum())


def numerical_gradient(function, *arrays, step=1e-5):
    """Central differences with respect to every entry of every array, one flat vector."""
    slopes = []
    for k, array in enumerate(arrays):
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[k][index] += sign * step
                ends.append(function(*moved))
            slopes.append((ends[0] - ends[1]) / (2 * step))
    return np.array(slopes)


def max_slope(clf, loss, X, y, **options):
    """Largest entry of the numerical gradient of the documented objective at the fit."""

    def objective(coef, intercept):
        return documented_objective(loss, X, y, coef, intercept, **options)

    slopes = numerical_gradient(objective, clf.coef_, clf.intercept_)
    return np.abs(slopes).max()
