"""scikit-learn's own checks: all of them, none skipped or expected to fail."""

import os
import subprocess
import sys

import pytest

# A process of its own: SCIPY_ARRAY_API counts only if it is set before SciPy is imported.
SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import pandas
from sparsemap_np import *
from sklearn.utils import estimator_checks as checks

estimator = eval(sys.argv[1])
results = checks.check_estimator(estimator, on_skip=None, on_fail=None)
assert len(results) > 50
for result in results:
    if result["status"] != "passed":
        print(result["status"], result["check_name"], repr(result["exception"]))
name = type(estimator).__name__
checks.check_param_validation(name, estimator)
checks.check_dataframe_column_names_consistency(name, estimator)
print("done")
"""


@pytest.mark.parametrize(
    "estimator",
    [
        "FenchelYoungClassifier()",
        "FenchelYoungClassifier('logistic', solver='lbfgs')",
        "FenchelYoungClassifier(solver='newton')",
        "FenchelYoungClassifier('entmax15', l1_ratio=0.5)",
        "SparsemaxClassifier()",
        "EntmaxClassifier()",
        "NormmaxClassifier()",
        "EntmaxClassifier('learn')",
        # That weights are repetition is asked to 1e-7: under penalties that leave less freedom.
        "FenchelYoungClassifierCV([0.01, 0.1], [1.0, 2.0], solver='newton', cv=3)",
        "KSubsetsClassifier()",
        "KSubsetsClassifier(budget='mean')",
        "EntmaxCalibrator(SparsemaxClassifier())",
    ],
)
def test_check_estimator(estimator):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, estimator],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "done"
