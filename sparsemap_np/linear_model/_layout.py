"""How the parameters of a linear model lie in the flat vector that a solver sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Layout:
    """How the parameters lie in the flat vector that a solver sees.

    A feature's weights for all classes are adjacent, the intercepts come last: so the
    products ``X @ W`` and ``X.T @ D`` read and write contiguous rows, dense or CSR.

    Attributes
    ----------
    n_features, n_classes : int
        Size of the problem.
    fit_intercept : bool
        Whether a row of intercepts follows the weights.
    """

    n_features: int
    n_classes: int
    fit_intercept: bool

    @property
    def n_outputs(self) -> int:
        """Columns of weights: one for two classes, else one a class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_weights(self) -> int:
        """Penalised parameters: they come first in the flat vector."""
        return self.n_features * self.n_outputs

    @property
    def n_parameters(self) -> int:
        """Length of the flat vector."""
        return self.n_weights + self.fit_intercept * self.n_outputs

    def split(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """View the flat vector as weights and intercepts.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters (or a gradient).

        Returns
        -------
        W : ndarray of shape (n_features, n_outputs)
            View of the weights.
        b : ndarray of shape (n_outputs,) or None
            View of the intercepts, None without them.
        """
        W = w[: self.n_weights].reshape(self.n_features, self.n_outputs)
        return W, (w[self.n_weights :] if self.fit_intercept else None)

    def flatten(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Make flat float64 parameters from an estimator's attributes.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_features)
            As `coef_`.
        intercept : ndarray of shape (n_outputs,)
            As `intercept_`; left out when no intercept is fitted.

        Returns
        -------
        ndarray of shape (n_parameters,)
            A new vector.
        """
        w = np.empty(self.n_parameters)
        W, b = self.split(w)
        W[...] = coef.T
        if b is not None:
            b[...] = intercept
        return w

    def attributes(self, w: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Make an estimator's attributes from the flat vector.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        dtype : dtype
            Type of the result.

        Returns
        -------
        coef : ndarray of shape (n_outputs, n_features)
            As `coef_`.
        intercept : ndarray of shape (n_outputs,)
            As `intercept_`; zeros when none is fitted.
        """
        W, b = self.split(w)
        coef = np.array(W.T, dtype=dtype, order="C")
        intercept = np.zeros(self.n_outputs) if b is None else b
        return coef, np.array(intercept, dtype=dtype)
