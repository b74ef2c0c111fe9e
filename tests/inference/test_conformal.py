"""Conformal sets over domains: the quantile by hand, and coverage in simulated domains."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import InvalidValue, Outputs, domain_sets, score_threshold


def domain(rng: np.random.Generator, rows: int, shift: float) -> Outputs:
    """Three classes, and probabilities whose sharpness differs by domain."""
    labels = rng.integers(3, size=rows)
    logits = rng.standard_normal((rows, 3)) + (1 + shift) * np.eye(3)[labels]
    odds = np.exp(logits)
    return Outputs(odds / odds.sum(axis=1, keepdims=True), labels, np.arange(rows))


def scored(*scores: float) -> Outputs:
    right = 1 - np.array(scores)
    rows = len(right)
    return Outputs(np.stack([right, 1 - right], axis=1), np.zeros(rows, dtype=int), np.arange(rows))


def test_the_quantile_by_hand() -> None:
    """Masses: the first domain 1/3 in two halves, the second 1/3, and 1/3 at infinity."""
    domains = [scored(0.1, 0.4), scored(0.2)]
    assert score_threshold(domains, 0.15) == (pytest.approx(0.1), True)
    assert score_threshold(domains, 0.5) == (pytest.approx(0.2), True)
    assert score_threshold(domains, 0.6) == (pytest.approx(0.4), True)


def test_too_few_domains_promise_nothing() -> None:
    """Two domains cannot promise 90%; the quantile is then that of their rows."""
    assert score_threshold([scored(0.1, 0.4), scored(0.2)], 0.9) == (pytest.approx(0.4), False)
    nine = [scored(0.1 * i) for i in range(9)]
    assert score_threshold(nine, 0.9) == (pytest.approx(0.8), True)
    assert not score_threshold(nine[1:], 0.9)[1]


def test_a_large_domain_weighs_as_much_as_a_small_one() -> None:
    domains = [scored(*[0.1] * 1000), scored(0.9), scored(0.8)]
    assert score_threshold(domains, 0.5)[0] == pytest.approx(0.8)


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_sets_cover_rows_of_new_domains(level: float) -> None:
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(400):
        shifts = rng.standard_normal(13)
        *known, new = (domain(rng, int(rng.integers(20, 60)), shift) for shift in shifts)
        sets = domain_sets(known, new.probabilities, level)
        assert sets.promised
        covered.append(sets.members[np.arange(len(new.labels)), new.labels].mean())
    error = np.std(covered) / np.sqrt(len(covered))
    assert level - 2 * error <= np.mean(covered) <= level + 1 / 13 + 2 * error


def test_mistakes_are_said() -> None:
    with pytest.raises(InvalidValue, match="`sets` must be between 0 and 1"):
        score_threshold([scored(0.1)], 90)
