"""Every candidate of `best` for numbers: stored, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    BoostingCandidate,
    Ensemble,
    ForestCandidate,
    LinearCandidate,
    Samples,
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


def samples(loss: str = "squared", seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(150, 4))
    x[rng.random(x.shape) < 0.05] = np.nan
    y = np.nan_to_num(x) @ rng.normal(size=4) + 0.1 * rng.normal(size=150)
    return Samples(x, y, np.arange(150) % 3, 0, np.zeros(4, dtype=bool), loss=loss)


@pytest.mark.parametrize("name", QUICK)
def test_a_model_is_stored_as_it_predicts(name: str) -> None:
    rows = samples()
    made = single(QUICK[name], rows, 0)
    assert made.held_out is not None
    assert made.held_out.shape == (150, 1)
    predicted = made.predict(rows.x)
    assert predicted.shape == (150, 1)
    read = Ensemble.read(made.to_json(), made.arrays(), 4, 0)
    assert np.array_equal(read.predict(rows.x), predicted)


def test_ridge_is_scikit_learns() -> None:
    rows = samples()
    model = LinearCandidate(variants=(0.1,)).fit(rows, 0.1, 0)
    features = model.encoder.transform(rows.x)
    other = Ridge(0.1 * len(rows), solver="svd").fit(features, rows.y)
    assert model.predict(rows.x)[:, 0] == pytest.approx(other.predict(features), rel=1e-8, abs=1e-8)


def test_every_candidate_of_best_is_tested_here() -> None:
    kinds = {type(candidate) for candidate in portfolio(samples())}
    assert kinds == {type(candidate) for candidate in QUICK.values()}
