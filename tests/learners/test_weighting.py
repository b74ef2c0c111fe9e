"""Weights by a score of the user's choice: what it decides, and what it leaves to the log loss."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    DataError,
    LinearCandidate,
    Samples,
    Weights,
    best_combined as combined,
    best_rule,
    judge,
    mean_badness,
    metric_weights,
    stacking_weights,
)
from sklearn.metrics import f1_score, roc_auc_score


def sites(domains: int = 6, rows: int = 60, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, domains * rows)
    x = rng.normal(size=(len(y), 3)) + y[:, None]
    return Samples(x, y, np.repeat(np.arange(domains), rows), 2, np.zeros(3, dtype=bool))


def forecasts(second: np.ndarray) -> np.ndarray:
    return np.stack([1 - second, second], axis=-1)


def test_the_mean_over_domains_where_the_score_is_defined() -> None:
    samples = sites()
    samples.y[samples.domain == 0] = 1  # the AUROC is undefined there
    second = np.random.default_rng(1).random(len(samples))
    rows = [samples.domain == domain for domain in range(1, 6)]
    areas = [roc_auc_score(samples.y[own], second[own]) for own in rows]
    assert mean_badness("auroc", forecasts(second), samples) == pytest.approx(-np.mean(areas))
    with pytest.raises(DataError, match="`metric` auroc is undefined in every training domain"):
        mean_badness("auroc", forecasts(second)[:60], samples.only(samples.domain == 0))


def test_the_log_loss_keeps_the_stacked_weights() -> None:
    samples = sites()
    rng = np.random.default_rng(2)
    predicted = forecasts(rng.uniform(0.1, 0.9, (3, len(samples))))
    own = predicted[:, np.arange(len(samples)), samples.y]
    stacked = stacking_weights(own, samples.domain, seed=0)
    found = metric_weights(predicted, samples, 0, "log_loss")
    assert (found.mean == stacked.mean).all()
    assert (found.spread == stacked.spread).all()


def test_the_best_member_alone_where_the_log_loss_prefers_another() -> None:
    """A member that ranks perfectly but has wild probabilities; another is calibrated and dull."""
    samples = sites()
    rng = np.random.default_rng(3)
    noise = rng.normal(size=len(samples))
    dull = 0.5 + 0.08 * (samples.y - 0.5) + 0.02 * noise
    wild = np.where(samples.y == 1, 0.999, 0.995)  # all above ½: ranked right, all called 1
    predicted = forecasts(np.stack([dull, wild]))
    weights = metric_weights(predicted, samples, 0, "auroc").mean
    mixture = np.tensordot(weights, predicted, 1)
    assert mean_badness("auroc", mixture, samples) == pytest.approx(-1)
    by_f1 = np.tensordot(metric_weights(predicted, samples, 0, "f1").mean, predicted, 1)
    right = f1_score(samples.y, by_f1.argmax(axis=1), average="macro")
    assert right > f1_score(samples.y, predicted[1].argmax(axis=1), average="macro")


def test_a_rule_is_judged_on_domains_that_it_has_not_seen() -> None:
    """A rule that memorises which member was right loses to one that is right by itself."""
    samples = sites()
    good = np.where(np.random.default_rng(4).random(len(samples)) < 0.8, samples.y, 1 - samples.y)
    predicted = forecasts(np.stack([0.1 + 0.8 * good, 0.1 + 0.8 * (1 - good)]))
    seen: list[set[int]] = []

    def plain(predicted: np.ndarray, samples: Samples) -> Weights:
        seen.append(set(samples.domain.tolist()))
        return Weights(np.array([1.0, 0.0]), np.zeros(2))

    def wrong(predicted: np.ndarray, samples: Samples) -> Weights:
        return Weights(np.array([0.0, 1.0]), np.zeros(2))

    assert best_rule((wrong, plain), predicted, samples, 0, "accuracy") is plain
    assert all(len(domains) < 6 for domains in seen)
    assert set.intersection(*seen) == set()  # every domain was held out once


def test_the_score_chooses_the_setting() -> None:
    """Of two penalties, the larger has the better log loss, and the accuracy may differ."""
    samples = sites()
    candidate = LinearCandidate("linear", (1e-3, 1.0, 1e5))
    by_loss, by_area = (judge(candidate, samples, 0, metric) for metric in ("log_loss", "auroc"))
    held_out = {
        variant: judge(LinearCandidate("linear", (variant,)), samples, 0).predicted
        for variant in candidate.variants
    }
    areas = {v: -mean_badness("auroc", own, samples) for v, own in held_out.items()}
    assert areas[by_area.variant] == pytest.approx(max(areas.values()), abs=1e-3)
    losses = {v: mean_badness("log_loss", own, samples) for v, own in held_out.items()}
    assert by_loss.variant == min(losses, key=lambda v: losses[v])


def test_an_ensemble_by_a_score_sums_to_one() -> None:
    samples = sites()
    judged = [
        judge(LinearCandidate("good", (0.01,)), samples, 0),
        judge(LinearCandidate("useless", (1e6,)), samples, 0),
    ]
    ensemble = combined(judged, samples, 0, metric="accuracy")
    assert sum(member.weight for member in ensemble.members) == pytest.approx(1)
    assert ensemble.members[0].weight > 0.4
