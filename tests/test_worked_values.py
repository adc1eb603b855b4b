"""The worked values of the interface, as a reader would check them by hand."""

import numpy as np
import pytest

import sparsemap_np as sm

x = np.array([-2, 0, 0.5])
fifths = np.array([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: sm.sparsemax(x), [0, 0.25, 0.75]),
        (lambda: sm.sparsemax_bisect(x), [0, 0.25, 0.75]),
        (lambda: sm.entmax15(x), [0, 0.3260, 0.6740]),
        (lambda: sm.normmax_bisect(x, 2), [0, 0.3110, 0.6890]),
        (lambda: sm.normmax_bisect(x, 1000), [0, 0.4997, 0.5003]),
        (lambda: sm.budget_bisect(x, 2), [0, 1, 1]),
        (lambda: sm.entmax(x, 1), [0.0486, 0.3592, 0.5922]),
        (lambda: sm.normmax_bisect(fifths, 2), [0, 0.0239, 0.1746, 0.3254, 0.4761]),
        (lambda: sm.budget_bisect(fifths, 2), [0, 0.1250, 0.3750, 0.6250, 0.8750]),
        (lambda: sm.budget_bisect(2 * fifths, 3), [0, 0.25, 0.75, 1, 1]),
        (
            lambda: sm.entmax_bisect([[-1, 0, 0.5], [1, 2, 3.5]], 1.33),
            [[0.0460, 0.3276, 0.6264], [0.0026, 0.1012, 0.8963]],
        ),
    ],
)
def test_mapping(call, value):
    np.testing.assert_allclose(call(), value, atol=5e-5)


def test_alpha_derivative():
    P = sm.entmax_bisect([[-1, 0, 0.5], [1, 2, 3.5]], 1.33)
    dP = np.zeros((2, 3))
    dP[0, 0] = 1
    _, dalpha = sm.entmax_bisect_vjp(dP, P, 1.33, return_dalpha=True)
    np.testing.assert_allclose(dalpha, [[-0.2562], [0]], atol=5e-5)


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2, 3, 5])
def test_one_hot_is_reached_at_one_over_alpha_minus_one(alpha):
    t = 1 / (alpha - 1)
    np.testing.assert_array_equal(sm.entmax([t, 0], alpha), [1, 0])
    assert sm.entmax([t * 0.999, 0], alpha)[1] > 0


def test_sparsemax_jacobian():
    P = sm.sparsemax([0, 1, 1.5])
    np.testing.assert_array_equal(
        sm.sparsemax_jacobian(P), [[0, 0, 0], [0, 0.5, -0.5], [0, -0.5, 0.5]]
    )
