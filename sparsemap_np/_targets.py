"""What ``y`` may be: labels of any kind, or one distribution over the classes a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Targets:
    """Targets in the form the losses take.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        What each column of the scores stands for.
    encoded : ndarray or CSR array
        Indices into `classes`, shape (n,), or distributions, shape (n, n_classes).
    """

    classes: np.ndarray
    encoded: Any

    def class_totals(self, weight: np.ndarray) -> np.ndarray:
        """Weight that each class carries.

        Parameters
        ----------
        weight : ndarray of shape (n,)
            Sample weights.

        Returns
        -------
        ndarray of shape (n_classes,)
            Sums over the samples.
        """
        if self.encoded.ndim == 1:
            return np.bincount(self.encoded, weights=weight, minlength=len(self.classes))
        return self.encoded.T @ weight

    def spread(self, class_weight: np.ndarray) -> np.ndarray:
        """Turn one weight a class into one weight a sample.

        Parameters
        ----------
        class_weight : ndarray of shape (n_classes,)
            Weight of each class.

        Returns
        -------
        ndarray of shape (n,)
            The weight of the sample's class, or its mean under the sample's distribution.
        """
        if self.encoded.ndim == 1:
            return class_weight[self.encoded]
        return self.encoded @ class_weight


def is_distribution(y: Any) -> bool:
    """Tell distributions from labels by the shape alone.

    Parameters
    ----------
    y : array-like
        Any target; a single column is taken for labels.

    Returns
    -------
    bool
        Whether `y` has two or more columns.
    """
    shape = _shape(y)
    return len(shape) == 2 and shape[1] > 1


def column_classes(y: Any) -> np.ndarray:
    """Class names of a table of distributions.

    Parameters
    ----------
    y : array-like of shape (n, n_classes)
        Target as the user gave it.

    Returns
    -------
    ndarray of shape (n_classes,)
        The column names of a frame, else 0 .. n_classes - 1.
    """
    columns = getattr(y, "columns", None)
    return np.arange(_shape(y)[1]) if columns is None else np.asarray(columns)


def _shape(y: Any) -> tuple[int, ...]:
    return y.shape if hasattr(y, "shape") else np.asarray(y).shape


def plain_labels(y: Any) -> Any:
    """Free labels from a nullable type of pandas, which scikit-learn turns into floats.

    Parameters
    ----------
    y : array-like
        Labels.

    Returns
    -------
    array-like
        Integers or booleans where pandas holds them in an array that could have had missing
        values but has none; else `y`, so that scikit-learn says what is wrong.
    """
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is None or not hasattr(y, "isna") or y.isna().any():
        return y
    return y.to_numpy(dtype=plain)


def encode_labels(y: np.ndarray) -> Targets:
    """Encode a column of labels.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels of any kind that scikit-learn takes.

    Returns
    -------
    Targets
        Classes sorted, labels as indices.

    Raises
    ------
    ValueError
        If these are no labels, or there is only one class.
    """
    check_classification_targets(y)
    classes, encoded = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "This classifier needs samples of at least 2 classes in the data, but the data "
            f"contains only one class: {classes[0]!r}"
        )
    return Targets(classes, encoded)


def check_distributions(y: Any, classes: np.ndarray, dtype: np.dtype) -> Targets:
    """Check a table of distributions.

    Parameters
    ----------
    y : ndarray or sparse array of shape (n, n_classes)
        Finite numbers.
    classes : ndarray of shape (n_classes,)
        What the columns stand for.
    dtype : dtype
        Floating-point type to compute in.

    Returns
    -------
    Targets
        With distributions as given, CSR where they came sparse.

    Raises
    ------
    ValueError
        If a row has a negative entry or does not sum to 1.
    """
    encoded = y.tocsr() if sp.issparse(y) else np.asarray(y)
    encoded = encoded.astype(dtype, copy=False)
    sums = np.asarray(encoded.sum(axis=1, dtype=np.float64)).ravel()
    lowest = encoded.min(axis=1).toarray().ravel() if sp.issparse(encoded) else encoded.min(axis=1)
    bad = np.flatnonzero((lowest < 0) | ~(np.abs(sums - 1) <= _SUM_TOLERANCE))
    if bad.size:
        row = bad[0]
        raise ValueError(
            f"y with {encoded.shape[1]} columns must hold one distribution a row: entries >= 0 "
            f"that sum to 1. Row {row} sums to {sums[row]:g}, and its smallest entry is "
            f"{lowest[row]:g}. Multi-label indicators are not distributions: divide each row by "
            "its sum, or take a multi-label classifier."
        )
    return Targets(classes, encoded)


def combined_weights(
    targets: Targets, sample_weight: np.ndarray | None, class_weight: Any
) -> np.ndarray | None:
    """Multiply the class weights into the sample weights.

    Parameters
    ----------
    targets : Targets
        The targets.
    sample_weight : ndarray of shape (n,) or None
        Weights given to `fit`.
    class_weight : dict, "balanced" or None
        As in scikit-learn. "balanced" makes every class carry the same total weight.

    Returns
    -------
    ndarray of shape (n,) or None
        None when every sample weighs 1.

    Raises
    ------
    ValueError
        If a weight is negative, or all are zero.
    """
    if sample_weight is not None and np.any(sample_weight < 0):
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if class_weight is None:
        weight = sample_weight
    else:
        n_samples = targets.encoded.shape[0]
        weight = np.ones(n_samples) if sample_weight is None else sample_weight
        if isinstance(class_weight, str):
            totals = targets.class_totals(weight)
            present = totals > 0
            per_class = np.zeros(len(totals))
            per_class[present] = totals.sum() / (present.sum() * totals[present])
        else:
            per_class = compute_class_weight(
                class_weight, classes=targets.classes, y=targets.classes
            )
            if np.any(per_class < 0):
                raise ValueError(f"class_weight must not be negative. Got {class_weight!r}.")
        weight = weight * targets.spread(per_class)
    if weight is not None and not np.any(weight):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight
