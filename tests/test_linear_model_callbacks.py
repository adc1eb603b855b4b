"""scikit-learn's callbacks on our fits, where scikit-learn has them (1.9 and later)."""

import numpy as np
import pytest
from linear_models import X6, Y6

from sparsemap_np import SparsemaxClassifier

pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks since 1.9")


class Recorder:
    """Notes the training score after each iteration; may ask to stop."""

    def __init__(self, stop_after=None, raises=False):
        self.stop_after, self.raises = stop_after, raises
        self.begun, self.scores, self.ready = 0, [], []

    def setup(self, estimator, context):
        self.ready.append("set up")

    def teardown(self, estimator, context):
        self.ready.append("torn down")

    def on_fit_task_begin(self, estimator, context):
        self.begun += context.task_name == "iteration"

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        if context.task_name != "iteration" or fitted_estimator is None:
            return False
        self.scores.append(fitted_estimator.score(X, y))
        stop = self.stop_after is not None and len(self.scores) >= self.stop_after
        if stop and self.raises:
            raise StopIteration
        return stop


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_each_iteration_is_told(l1_ratio):
    recorder = Recorder()
    clf = SparsemaxClassifier(l1_ratio=l1_ratio).set_callbacks(recorder).fit(X6, Y6)
    assert len(recorder.scores) == clf.n_iter_[0]
    assert recorder.begun == clf.n_iter_[0] + 1
    assert recorder.scores[-1] == clf.score(X6, Y6)
    assert recorder.ready == ["set up", "torn down"]
    plain = SparsemaxClassifier(l1_ratio=l1_ratio).fit(X6, Y6)
    np.testing.assert_array_equal(clf.coef_, plain.coef_)


@pytest.mark.parametrize("raises", [False, True])
def test_a_callback_stops_the_fit(raises):
    recorder = Recorder(stop_after=2, raises=raises)
    clf = SparsemaxClassifier().set_callbacks(recorder).fit(X6, Y6)
    np.testing.assert_array_equal(clf.n_iter_, [2])
    assert len(recorder.scores) == 2


def test_progress_bar():
    pytest.importorskip("rich", reason="scikit-learn's ProgressBar draws with rich")
    from sklearn.callback import ProgressBar

    clf = SparsemaxClassifier().set_callbacks(ProgressBar()).fit(X6, Y6)
    assert clf.score(X6, Y6) == 1.0
