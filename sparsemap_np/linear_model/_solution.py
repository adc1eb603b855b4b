"""What every solver returns, and how it tells that it is done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROUNDING = 64
"""A change of so many epsilons of a value is mostly rounding; LogisticRegression thinks so too."""


def largest(v: np.ndarray) -> float:
    """Largest magnitude.

    Parameters
    ----------
    v : ndarray
        Numbers, or none.

    Returns
    -------
    float
        Never negative; 0 for an empty array.
    """
    return float(np.abs(v).max(initial=0.0))


@dataclass(frozen=True)
class Solution:
    """Where a solver stopped.

    Attributes
    ----------
    w : ndarray
        Parameters.
    value : float
        Objective.
    slope : float
        Largest entry of the projected gradient.
    n_iter : int
        Iterations taken.
    message : str
        Why it stopped, in the solver's words.
    """

    w: np.ndarray
    value: float
    slope: float
    n_iter: int
    message: str
