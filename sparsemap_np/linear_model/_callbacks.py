"""scikit-learn's callbacks, which exist since 1.9 and are experimental there.

This is the only module that knows of them. With an older scikit-learn the mixin is empty,
and only the lines of ``verbose`` remain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "FitReport"]

# verbose=1 prints every so many iterations, verbose=2 each one.
_QUIET_STEP = 10


class FitReport:
    """What a fit tells the world while it runs: lines of text, and callbacks.

    Parameters
    ----------
    estimator : estimator
        The estimator being fitted.
    X, y : array-like
        Validated training data, handed to the callbacks.
    sample_weight : ndarray or None
        Weights, handed to the callbacks.
    attributes : callable
        ``attributes(w)`` gives the fitted attributes that belong to parameters `w`.
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: np.ndarray | None,
        attributes: Callable[[np.ndarray], dict[str, Any]],
    ) -> None:
        self._estimator = estimator
        self._attributes = attributes
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._root = self._step = None
        self.stopped = False
        if hasattr(estimator, "_init_callback_context"):
            # One task for each iteration, and one begun that never runs.
            self._root = estimator._init_callback_context(
                max_subtasks=max(estimator.max_iter, 1) + 1
            )
            self._root.call_on_fit_task_begin(**self._data)

    def begin(self, w: np.ndarray) -> None:
        """Open the task of the next iteration.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Parameters it starts from.
        """
        if self._root is not None and hasattr(self._estimator, "_skl_callbacks"):
            self._step = self._root.subcontext(task_name="iteration")
            self._step.call_on_fit_task_begin(
                **self._data, reconstruction_attributes=lambda: self._attributes(w)
            )

    @property
    def listens(self) -> bool:
        """Whether anybody wants to hear of iterations."""
        return bool(self._estimator.verbose) or self._step is not None

    def iteration(self, n_iter: int, w: np.ndarray, value: float, slope: float) -> bool:
        """Tell of an iteration that has ended.

        Parameters
        ----------
        n_iter : int
            How many have ended.
        w : ndarray of shape (n_parameters,)
            Parameters reached.
        value : float
            Objective there.
        slope : float
            Largest entry of its projected gradient.

        Returns
        -------
        bool
            Whether a callback asks to stop.
        """
        verbose = self._estimator.verbose
        if verbose and (verbose > 1 or n_iter == 1 or n_iter % _QUIET_STEP == 0):
            name = type(self._estimator).__name__
            print(f"[{name}] iteration {n_iter}: objective {value:.10g}, max|gradient| {slope:.3g}")
        if self._step is not None:
            at = w.copy()
            try:
                self.stopped = bool(
                    self._step.call_on_fit_task_end(
                        **self._data, reconstruction_attributes=lambda: self._attributes(at)
                    )
                )
            except StopIteration:
                self.stopped = True
            self.begin(at)
        return self.stopped

    def end(self) -> None:
        """Close all tasks, once the estimator is fitted."""
        if self._step is not None:
            self._step.call_on_fit_task_end(estimator=self._estimator)
        if self._root is not None:
            self._root.call_on_fit_task_end(**self._data, reconstruction_attributes={})
