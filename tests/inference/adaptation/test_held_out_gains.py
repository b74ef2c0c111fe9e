"""What correcting held-out training domains gained, and how strong the correction may be."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_sites import new_site

from shiftproof.inference.adaptation import held_out_gains as module
from shiftproof.inference.adaptation.held_out_gains import held_out_gains
from shiftproof.inference.adaptation.matching_shares import with_shares
from shiftproof.inference.adaptation.sites import Site
from shiftproof.inference.adaptation.typical_inputs import TypicalRows

EQUAL = np.array([0.5, 0.5])
SHARES = (0.2, 0.3, 0.7, 0.8)


def sites(score_p: float = 1.0) -> dict[int, Site]:
    """Sites with label shift, whose probabilities are right but for the shares."""
    found = {}
    for number, share in enumerate(SHARES):
        p, y = new_site(share, EQUAL, 2000, number)
        found[number] = Site(p, y, EQUAL, EQUAL, np.eye(2) * 1e-9, score_p, None)
    return found


def overshooting(factor: float, given: dict[int, Site]) -> list[np.ndarray]:
    """Estimates that go `factor` times as far from the mean prediction as the true shares."""
    means = [site.predicted.mean(axis=0) for site in given.values()]
    moved = [m + factor * (site.shares - m) for m, site in zip(means, given.values(), strict=True)]
    return [np.clip(own, 0.01, 0.99) for own in moved]


def log_loss(site: Site, shares: np.ndarray) -> float:
    """The mean log loss of a site whose probabilities have these shares."""
    p = with_shares(site.predicted, shares)
    return -float(np.log(p[np.arange(len(site.y)), site.y]).mean())


@pytest.mark.parametrize(("factor", "wanted"), [(1.0, (1.0,)), (4.0, (0.16, 0.24))])
def test_the_strength_undoes_what_the_estimates_overshoot(
    factor: float, wanted: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """True shares are best, at 1/4 of the way to estimates four times as far.

    Of the strengths tried, 0.2 and 0.3 are nearest; four domains take 4/5 of that.
    """
    monkeypatch.setattr(module, "_targets", lambda own: overshooting(factor, sites()))
    found = held_out_gains(sites(), {})
    assert round(found.strength, 9) in wanted
    assert found.log_loss > 0.01
    assert not found.surely_raised_log_loss
    means = {n: site.predicted.mean(axis=0) for n, site in sites().items()}
    moved = [
        means[n] + found.strength * (target - means[n])
        for n, target in enumerate(overshooting(factor, sites()))
    ]
    by_hand = [log_loss(site, means[n]) - log_loss(site, moved[n]) for n, site in sites().items()]
    assert found.log_loss == pytest.approx(np.mean(by_hand), abs=1e-6)
    errors = [own - site.shares for own, site in zip(moved, sites().values(), strict=True)]
    np.testing.assert_allclose(found.error, np.sqrt(np.mean(np.square(errors), axis=0)))


def test_estimates_to_the_wrong_side_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_targets", lambda own: overshooting(-1.0, sites()))
    found = held_out_gains(sites(), {})
    assert found.strength == 1
    assert found.surely_raised_log_loss
    assert found.log_loss < -0.01


def test_a_domain_that_fails_a_test_is_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_targets", lambda own: overshooting(1.0, sites()))
    whole = held_out_gains(sites(0.03), {})
    assert whole.log_loss == 0  # one test has the whole level
    rng = np.random.default_rng(0)
    rows = {n: TypicalRows(rng.uniform(size=50), np.arange(50) % 2) for n in range(4)}
    assert held_out_gains(sites(0.03), rows).log_loss > 0  # of two, each has a half
