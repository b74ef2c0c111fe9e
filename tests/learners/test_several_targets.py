"""Several numbers predicted at once: each learner against an independent computation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from _internals import (
    BoostingCandidate,
    Ensemble,
    EnsembleLayer,
    ForestCandidate,
    LinearCandidate,
    Samples,
    criterion_of,
    judge,
    number_weights,
    portfolio,
    single,
)
from sklearn.linear_model import Ridge

QUICK = {
    "linear": LinearCandidate(variants=(0.01, 1.0)),
    "boosting": BoostingCandidate(variants=(5, 10)),
    "forest": ForestCandidate(variants=(1, 5), trees=8),
    "extra trees": ForestCandidate("extra trees", (5,), 8, extra=True),
}


def samples(targets: int = 2, loss: str = "squared", seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(150, 4))
    x[rng.random(x.shape) < 0.05] = np.nan
    clean = np.nan_to_num(x)
    y = np.stack([clean @ rng.normal(size=4), np.abs(clean[:, 0]), clean[:, 1]], axis=1)[
        :, :targets
    ]
    y = y + 0.1 * rng.normal(size=y.shape)
    domain = np.arange(150) % 3
    labels = y[:, 0] if targets == 1 else y
    return Samples(x, labels, domain, 0, np.zeros(4, dtype=bool), loss=loss)


def one_of(rows: Samples, place: int) -> Samples:
    return replace(rows, y=rows.y[:, place])


@pytest.mark.parametrize("name", QUICK)
def test_a_model_is_stored_and_exported_as_it_predicts(name: str) -> None:
    rows = samples()
    made = single(judge(QUICK[name], rows, 0), rows, 0)
    assert made.held_out is not None
    assert made.held_out.shape == (150, 2)
    predicted = made.predict(rows.x)
    assert predicted.shape == (150, 2)
    assert np.array_equal(Ensemble.from_bytes(made.to_bytes()).predict(rows.x), predicted)
    with torch.no_grad():
        found = EnsembleLayer(made)(torch.from_numpy(rows.x)).numpy()
    assert found == pytest.approx(predicted, rel=1e-9, abs=1e-9)


def test_ridge_is_scikit_learns_with_two_targets() -> None:
    rows = samples()
    model = LinearCandidate(variants=(0.1,)).fit(rows, 0.1, 0)
    features = model[:-1].transform(rows.x)
    other = Ridge(0.1 * len(rows), solver="svd").fit(features, rows.y)
    assert model.predict(rows.x) == pytest.approx(other.predict(features), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", ["linear", "boosting"])
def test_a_target_is_learnt_as_if_it_were_alone(name: str) -> None:
    """Ridge and boosting have nothing that targets share, for one setting."""
    candidate: Any = QUICK[name]
    rows, folds = samples(), np.arange(150) % 3
    together = candidate.held_out(rows, folds, 0)
    for place in range(2):
        alone = candidate.held_out(one_of(rows, place), folds, 0)
        assert together[:, :, place] == pytest.approx(alone[:, :, 0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_the_criterion_is_the_mean_over_targets(loss: str) -> None:
    rows = samples(3, loss)
    predicted = rows.y + np.random.default_rng(1).normal(size=rows.y.shape)
    several = criterion_of(rows)
    parts = [
        (criterion_of(own), own, predicted[:, [place]])
        for place in range(3)
        for own in [one_of(rows, place)]
    ]
    losses = np.mean([own.losses(p, part) for own, part, p in parts], axis=0)
    assert several.losses(predicted, rows) == pytest.approx(losses)
    scores = np.mean([own.scores(p, part) for own, part, p in parts], axis=0)
    assert several.scores(predicted, rows) == pytest.approx(scores)


def test_weights_of_members_are_of_least_loss_over_all_targets() -> None:
    """The first member errs in one target and the second in the other, by 1 and by 2."""
    rows = samples()
    sign = np.where(np.random.default_rng(2).random(150) < 0.5, -1.0, 1.0)
    errors = np.zeros((2, 150, 2))
    errors[0, :, 0], errors[1, :, 1] = sign, 2 * sign
    found = criterion_of(rows).weights(rows.y + errors, rows, 0, 5).mean
    assert found == pytest.approx([0.8, 0.2])  # least of w² + 4 (1 − w)²


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_row_of_two_targets_counts_as_two_rows_of_its_domain(loss: str) -> None:
    """Members that are good in other domains: which errors belong to which domain matters."""
    rows = samples(loss=loss)
    rng = np.random.default_rng(3)
    spread = np.array([[0.1, 1.0, 3.0], [2.0, 0.5, 0.2]])[:, rows.domain]
    errors = spread[:, :, None] * rng.normal(size=(2, 150, 2))
    found = criterion_of(rows).weights(rows.y + errors, rows, 0, 5)
    one_by_one = np.concatenate([errors[:, :, 0], errors[:, :, 1]], axis=1)
    domain = np.concatenate([rows.domain, rows.domain])
    other = number_weights(one_by_one, domain, 0, 5, absolute=loss == "absolute")
    assert found.mean == pytest.approx(other.mean)
    assert found.spread == pytest.approx(other.spread)


def test_every_candidate_of_best_takes_several_targets() -> None:
    """That none of the portfolio is missing from the test of storing and exporting."""
    kinds = {type(candidate) for candidate in portfolio(samples())}
    assert kinds == {type(candidate) for candidate in QUICK.values()}
