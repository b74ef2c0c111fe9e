"""Both views of the rows, judged on held-out domains: each wins where it should."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    Ensemble,
    LinearCandidate,
    Samples,
    WithinDomains,
    best_combined as combined,
    judge,
    members_that_count,
    planned,
    portfolio,
    standardized_by_site,
)

COLUMNS = 4
NUMBERS = np.zeros(COLUMNS, dtype=bool)


def sites(gain: float, prevalence: float, count: int, seed: int, rows: int = 150) -> Samples:
    """Sites with other gains and offsets of their columns, and other shares of class 1."""
    rng = np.random.default_rng(seed)
    parts, labels = [], []
    for _ in range(count):
        y = (rng.random(rows) < np.clip(0.5 + prevalence * rng.normal(), 0.1, 0.9)).astype(int)
        x = rng.normal(size=(rows, COLUMNS)) + np.outer(y, np.linspace(-1, 1, COLUMNS))
        parts.append(x * np.exp(gain * rng.normal(size=COLUMNS)) + gain * rng.normal(size=COLUMNS))
        labels.append(y)
    x, domain = np.concatenate(parts), np.repeat(np.arange(count), rows)
    within = standardized_by_site(x, [str(site) for site in domain], NUMBERS, "domain")
    return Samples(x, np.concatenate(labels), domain, 2, NUMBERS, within=within)


def both(samples: Samples) -> np.ndarray:
    assert samples.within is not None
    return np.concatenate([samples.x, samples.within], axis=1)


def risk(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(predicted[np.arange(len(y)), y]).mean())


def ensembles(train: Samples) -> tuple[Ensemble, Ensemble]:
    """Return an ensemble of the plain view, and one of both."""
    plain, within = LinearCandidate(), WithinDomains(LinearCandidate())
    judged = [judge(candidate, train, 0) for candidate in (plain, within)]
    return combined(judged[:1], train, 0), combined(judged, train, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_sites_with_other_gains_are_better_off(seed):
    train, new = sites(0.8, 0, 6, seed), sites(0.8, 0, 20, seed + 100)
    plain, judged = ensembles(train)
    weights = {member.view: member.weight for member in judged.members}
    assert weights["domain"] > 0.8
    x = both(new)
    assert risk(judged.predict_proba(x), new.y) < risk(plain.predict_proba(x), new.y) - 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_sites_without_such_shift_lose_no_more_than_noise(seed):
    """Shares differ, which standardising hides: only rows as they are count."""
    train, new = sites(0.0, 0.25, 6, seed), sites(0.0, 0.25, 20, seed + 100)
    plain, judged = ensembles(train)
    weights = {member.view: member.weight for member in judged.members}
    assert weights == {"none": 1.0, "domain": 0.0}
    np.testing.assert_allclose(judged.predict_proba(both(new)), plain.predict_proba(both(new)))


def test_a_few_domains_alone_do_not_bring_the_second_view_in():
    """Candidates that are equally good in both views: rows as they are count, by any metric."""
    rng = np.random.default_rng(0)
    y, domain = rng.integers(0, 2, 90), np.arange(90) % 5
    samples = Samples(rng.normal(size=(90, COLUMNS)), y, domain, 2, NUMBERS)
    right = np.clip(0.65 + 0.25 * rng.normal(size=(4, 90)), 0.05, 0.95)
    predicted = np.empty((4, 90, 2))
    for member in range(4):
        predicted[member, np.arange(90), y] = right[member]
        predicted[member, np.arange(90), 1 - y] = 1 - right[member]
    views = ["none", "none", "domain", "domain"]
    for metric in ("log_loss", "accuracy"):
        found = members_that_count(predicted, views, samples, 0, metric)
        assert found.tolist() == [True, True, False, False]
    predicted[2:] = np.eye(2)[y] * 0.9 + 0.05  # surely better in every domain
    assert members_that_count(predicted, views, samples, 0, "log_loss")[2:].all()
    assert members_that_count(predicted[:2], views[:2], samples, 0, "log_loss").all()


def test_a_stored_ensemble_gives_each_member_its_view():
    train = sites(0.8, 0.1, 4, 0)
    _, made = ensembles(train)
    again = Ensemble.from_bytes(made.to_bytes())
    assert again.both_views
    np.testing.assert_allclose(again.predict_proba(both(train)), made.predict_proba(both(train)))
    assert {member["view"] for member in made.described()} == {"none", "domain"}


def test_the_view_of_a_held_out_domain_comes_from_its_own_rows():
    """Judging on the second view is judging the plain candidate on standardised samples."""
    train = sites(0.8, 0.1, 4, 0)
    here = judge(WithinDomains(LinearCandidate()), train, 0)
    there = judge(LinearCandidate(), train.within_domains(), 0)
    np.testing.assert_array_equal(here.predicted, there.predicted)
    assert here.fitted(train, 0, 1.0).view == "domain"


def test_by_default_there_is_one_view():
    train = sites(0.8, 0.1, 4, 0).within_domains()
    assert {candidate.view for candidate in portfolio(train)} == {"none"}
    with pytest.raises(ValueError, match="one view only"):
        train.within_domains()
    two = portfolio(sites(0.8, 0.1, 4, 0))
    assert len(two) == 2 * len(portfolio(train))
    cheapest, _ = planned(two, train, 1e-9)
    assert [candidate.view for candidate in cheapest] == ["none"]
