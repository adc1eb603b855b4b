"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
