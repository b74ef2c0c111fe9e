"""scikit-learn's own checks of an estimator."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from shiftproof.sklearn import ShiftproofClassifier

# The checks fit a few samples, of which a batch is not full; that is told in warnings.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

QUICK = {"hidden": 16, "batch_size": 16, "lr": 0.05}
# What cannot apply without domains: every check that fits the default, for it compares domains and
# the checks give none.  (Those that only see a mistake refused do pass.)
NO_DOMAINS = "idm compares domains, and scikit-learn's checks give none"
FITS_WITHOUT_DOMAINS = dict.fromkeys(
    [
        "check_classifier_data_not_an_array",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_dtype_object",
        "check_estimators_dtypes",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_estimators_pickle",
        "check_f_contiguous_array_estimator",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_fit_score_takes_y",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_n_features_in",
        "check_n_features_in_after_fitting",
        "check_pipeline_consistency",
        "check_positive_only_tag_during_fit",
        "check_readonly_memmap_input",
        "check_supervised_y_2d",
    ],
    NO_DOMAINS,
)


class GivenDomains(ShiftproofClassifier):
    """The same, for checks that give no domains: every other sample is from another one."""

    def fit(self, X, y, sample_domain=None):
        samples = 0 if y is None else len(np.asarray(y))
        return super().fit(X, y, sample_domain=np.arange(samples) % 2)


@parametrize_with_checks(
    [
        ShiftproofClassifier("erm", steps=10, hparams=QUICK, device="cpu"),
        ShiftproofClassifier(LogisticRegression(), device="cpu"),
        GivenDomains(steps=12, hparams={**QUICK, "gradient_weight": 1.0}, device="cpu"),
    ]
)
def test_a_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_the_default_fails_exactly_the_checks_that_fit_without_domains():
    results = check_estimator(
        ShiftproofClassifier(device="cpu"),
        expected_failed_checks=FITS_WITHOUT_DOMAINS,
        on_skip=None,
        on_fail="raise",
    )
    passed = {r["check_name"] for r in results if r["status"] == "passed"}
    failed = [r for r in results if r["status"] == "xfail"]
    assert {r["check_name"] for r in failed} == set(FITS_WITHOUT_DOMAINS)
    assert len(passed) > 20
    assert not passed & set(FITS_WITHOUT_DOMAINS)
    for result in failed:
        error, messages = result["exception"], []
        while error is not None:
            messages.append(str(error))
            error = error.__cause__ or error.__context__
        assert any("compares domains" in message for message in messages), result["check_name"]
