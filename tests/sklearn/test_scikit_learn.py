"""Domains through scikit-learn's cross-validation, searches and pipelines."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftproof import ShiftproofClassifier


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def estimator(quick, routed):
    return ShiftproofClassifier("idm", **quick).set_fit_request(sample_domain=True)


@pytest.mark.parametrize("before", [[], [StandardScaler()]])
def test_leave_one_domain_out(shifted, quick, estimator, before):
    x, y, domain = shifted
    scores = cross_val_score(
        make_pipeline(*before, estimator),
        x,
        y,
        cv=LeaveOneGroupOut(),
        params={"sample_domain": domain, "groups": domain},
        error_score="raise",
    )
    expected = []
    for name in "ABCD":
        rest = domain != name
        scaled = StandardScaler().fit(x[rest]).transform(x) if before else x
        model = ShiftproofClassifier("idm", **quick).fit(scaled[rest], y[rest], domain[rest])
        expected.append(model.score(scaled[~rest], y[~rest]))
    assert scores.tolist() == expected


def test_a_search_finds_the_algorithm_and_the_strength_that_hold_up(shifted, quick, estimator):
    x, y, domain = shifted
    base = {"hidden": 16, "lr": 0.01}
    weak, strong = base | {"gradient_weight": 1e-3}, base | {"gradient_weight": 1e3}
    search = GridSearchCV(
        estimator.set_params(steps=150),
        [{"algorithm": ["erm"], "hparams": [base]}, {"hparams": [weak, strong]}],
        # Only the hospital where the second column reverses is left out.
        cv=[(np.flatnonzero(domain != "D"), np.flatnonzero(domain == "D"))],
        error_score="raise",
    )
    search.fit(x, y, sample_domain=domain)
    assert search.best_params_ == {"hparams": strong}
    erm, little, much = search.cv_results_["mean_test_score"]
    assert max(erm, little) < 0.45
    assert much > 0.6
    # And it was fitted once more, with all domains.
    assert search.best_estimator_.domains_.tolist() == list("ABCD")
    assert search.best_estimator_.model_.config.hparams["gradient_weight"] == 1e3
    assert search.predict(x).shape == y.shape


def test_groups_and_domains_reach_a_search(shifted, estimator):
    x, y, domain = shifted
    search = GridSearchCV(estimator, {"steps": [1, 2]}, cv=LeaveOneGroupOut(), error_score="raise")
    search.fit(x, y, sample_domain=domain, groups=domain)
    assert search.n_splits_ == 4


def test_in_a_pipeline(shifted, quick, estimator):
    x, y, domain = shifted
    pipeline = make_pipeline(StandardScaler(), estimator).fit(x, y, sample_domain=domain)
    by_hand = StandardScaler().fit(x)
    expected = ShiftproofClassifier("idm", **quick).fit(by_hand.transform(x), y, domain)
    assert np.array_equal(pipeline.predict_proba(x), expected.predict_proba(by_hand.transform(x)))


def test_in_a_pipeline_without_routing(shifted, quick):
    x, y, domain = shifted
    pipeline = make_pipeline(StandardScaler(), ShiftproofClassifier("idm", **quick))
    pipeline.fit(x, y, shiftproofclassifier__sample_domain=domain)
    assert pipeline[-1].domains_.tolist() == list("ABCD")
    with pytest.raises(ValueError, match="idm compares domains"):
        pipeline.fit(x, y)


def test_domains_that_were_not_asked_for_are_an_error(shifted, quick, routed):
    x, y, domain = shifted
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_domain"):
        cross_val_score(
            ShiftproofClassifier("idm", **quick), x, y, params={"sample_domain": domain}
        )
