"""scikit-learn's own checks of an estimator."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from shiftproof import ShiftproofClassifier

# The checks fit a few samples, of which a batch is not full; that is told in warnings.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QUICK = {"hidden": 16, "batch_size": 16, "lr": 0.05}


class GivenDomains(ShiftproofClassifier):
    """The same, for checks that give no domains: every other sample is from another one."""

    def fit(self, X, y, sample_domain=None):
        samples = 0 if y is None else len(np.asarray(y))
        return super().fit(X, y, sample_domain=np.arange(samples) % 2)


def expected_failures(estimator):
    if isinstance(estimator.algorithm, LogisticRegression) or isinstance(estimator, GivenDomains):
        return {}
    how = "batches" if estimator.algorithm == "erm" else "folds, for lack of domains,"
    return {"check_sample_weight_equivalence_on_dense_data": f"{how} are drawn by row numbers"}


@parametrize_with_checks(
    [
        ShiftproofClassifier("erm", steps=10, hparams=QUICK, device="cpu"),
        ShiftproofClassifier(LogisticRegression(), device="cpu"),
        ShiftproofClassifier(hparams={"budget": 1e-9}, device="cpu"),  # best, of one candidate
        GivenDomains("idm", steps=12, hparams={**QUICK, "gradient_weight": 1.0}, device="cpu"),
    ],
    expected_failed_checks=expected_failures,
)
def test_a_check_of_scikit_learn_passes(estimator, check):
    check(estimator)
