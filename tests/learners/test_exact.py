"""Learners that are fitted at once: what every one of them must do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    BoostingCandidate,
    Ensemble,
    Exact,
    ForestCandidate,
    LinearCandidate,
    Samples,
    judge,
    stream_seed,
)

from shiftproof import ALGORITHMS, Task

SMALL = [
    LinearCandidate(variants=(0.01, 1.0)),
    BoostingCandidate(variants=(3, 6)),
    ForestCandidate(variants=(1, 3), trees=5),
    ForestCandidate("extra", variants=(2,), trees=5, extra=True),
]


# An estimator of the user's own has tests of its own.
NAMES = [name for name in ALGORITHMS if ALGORITHMS.get(name).exact and name != "estimator"]


def built(name: str) -> Exact:
    cls = ALGORITHMS.get(name)
    task = Task((4,), 2, 3, "table")
    few = {"trees": 50} if name == "forest" else {}
    return cls(task, cls.Hparams(**few), stream_seed(0, "noise"))


def hospitals(n: int = 150, classes: int = 2, seed: int = 0) -> Samples:
    """Three domains; a number, one with gaps, a category, and a column that one domain lacks."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    domain = np.arange(n) % 3
    x = rng.normal(size=(n, 4)) + y[:, None]
    x[:, 2] = (y + rng.integers(0, 2, n)) % 3
    x[::7, 1] = np.nan
    x[domain == 2, 3] = np.nan
    return Samples(x, y, domain, classes, np.array([False, False, True, False]))


@pytest.mark.parametrize("candidate", SMALL, ids=lambda c: c.name)
@pytest.mark.parametrize("classes", [2, 3])
def test_held_out_predictions_do_not_depend_on_the_held_out_labels(candidate, classes):
    samples = hospitals(classes=classes)
    folds = samples.domain
    before = candidate.held_out(samples, folds, seed=0)
    changed = samples.y.copy()
    changed[folds == 1] = (changed[folds == 1] + 1) % classes
    after = candidate.held_out(
        Samples(samples.x, changed, folds, classes, samples.categorical), folds, seed=0
    )
    assert after[:, folds == 1] == pytest.approx(before[:, folds == 1], abs=1e-4)
    assert after[:, folds != 1] != pytest.approx(before[:, folds != 1], abs=1e-2)
    assert before.shape == (len(candidate.variants), len(samples), classes)
    assert before.sum(axis=2) == pytest.approx(np.ones(before.shape[:2]))


@pytest.mark.parametrize("candidate", SMALL, ids=lambda c: c.name)
def test_a_variant_predicts_as_it_was_judged(candidate):
    samples = hospitals()
    train, rest = samples.only(samples.domain != 0), samples.only(samples.domain == 0)
    together = candidate.predictions(train, rest.x, seed=0)
    for variant, predicted in zip(candidate.variants, together, strict=True):
        alone = candidate.fit(train, variant, seed=0).predict(rest.x)
        assert predicted == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("candidate", SMALL, ids=lambda c: c.name)
def test_a_class_that_one_domain_alone_has_does_not_stop_it(candidate):
    samples = hospitals(classes=3)
    samples = samples.only((samples.y != 2) | (samples.domain == 0))
    judged = judge(candidate, samples, seed=0)
    assert np.isfinite(judged.risk)


def test_the_variant_is_the_one_that_held_out_domains_prefer():
    samples = hospitals()
    judged = judge(LinearCandidate(variants=(1e-2, 1e6)), samples, seed=0)
    assert judged.variant == 1e-2  # the other leaves nothing but the class shares
    assert judged.risk < np.log(2) - 0.1


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_fits_predicts_and_is_read_back_to_the_last_bit(name):
    samples = hospitals()
    fitted = built(name).fitted(samples, seed=0)
    predicted = fitted.predict(samples.x)
    assert predicted.sum(axis=1) == pytest.approx(np.ones(len(samples)))
    assert (predicted.argmax(axis=1) == samples.y).mean() > 0.7
    read = Ensemble.read(fitted.to_json(), fitted.arrays(), samples.x.shape[1], 2)
    assert (read.predict(samples.x) == predicted).all()
    told = fitted.described()
    assert sum(member["weight"] for member in told) == pytest.approx(1)
    assert {"name", "variant", "weight", "risk", "accuracy"} <= told[0].keys()
    again = built(name).fitted(samples, seed=0)
    assert again.described() == told
    assert (again.predict(samples.x) == predicted).all()
    assert all(
        array.tobytes() == again.arrays()[name].tobytes() for name, array in fitted.arrays().items()
    )


def test_log_probabilities_are_valid_logits():
    samples = hospitals()
    algorithm = built("linear")
    assert algorithm.fit(samples)["loss"] < np.log(2)
    logits = algorithm.predict(samples.x.astype(np.float32))
    assert np.exp(logits).sum(axis=1) == pytest.approx(np.ones(len(samples)), abs=1e-5)


@pytest.mark.parametrize("candidate", SMALL, ids=lambda c: c.name)
@pytest.mark.parametrize("column", [0, -1])
def test_a_column_without_a_value_in_training_does_not_stop_it(candidate, column):
    """scikit-learn's histograms cannot bin one; at the next site it may have values."""
    samples = hospitals()
    x = samples.x.copy()
    x[:, column] = np.nan
    train = replace(samples, x=x)
    judged = judge(candidate, train, seed=0)
    assert np.isfinite(judged.risk)
    predicted = candidate.fit(train, judged.variant, seed=0).predict(samples.x)
    assert np.isfinite(predicted).all()
