"""What correcting held-out training domains gained."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import (
    Site,
    TypicalRows,
    held_out_gains,
    inference_held_out_gains as module,
    with_shares,
)
from simulated_sites import new_site

EQUAL = np.array([0.5, 0.5])
SHARES = (0.2, 0.3, 0.7, 0.8)


def sites(score_p: float = 1.0) -> dict[int, Site]:
    """Sites with label shift, whose probabilities are right but for the shares."""
    found = {}
    for number, share in enumerate(SHARES):
        p, y = new_site(share, EQUAL, 2000, number)
        found[number] = Site(p, y, EQUAL, EQUAL, np.eye(2) * 1e-9, score_p, None)
    return found


def estimates(factor: float, given: dict[int, Site]) -> list[np.ndarray]:
    """Estimates `factor` times as far from the mean prediction as the true shares."""
    means = [site.predicted.mean(axis=0) for site in given.values()]
    moved = [m + factor * (site.shares - m) for m, site in zip(means, given.values(), strict=True)]
    return [np.clip(own, 0.01, 0.99) for own in moved]


def log_loss(site: Site, shares: np.ndarray) -> float:
    """The mean log loss of a site whose probabilities have these shares."""
    p = with_shares(site.predicted, shares)
    return -float(np.log(p[np.arange(len(site.y)), site.y]).mean())


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_gains_are_those_of_log_losses_before_and_after(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """True shares gain; estimates to the wrong side surely raise log loss."""
    targets = estimates(factor, sites())
    monkeypatch.setattr(module, "_targets", lambda own: targets)
    found = held_out_gains(sites(), {})
    by_hand = [
        log_loss(site, site.predicted.mean(axis=0)) - log_loss(site, target)
        for site, target in zip(sites().values(), targets, strict=True)
    ]
    assert found.log_loss == pytest.approx(np.mean(by_hand), abs=1e-6)
    assert abs(found.log_loss) > 0.01
    assert found.surely_raised_log_loss is (factor < 0)
    errors = [own - site.shares for own, site in zip(targets, sites().values(), strict=True)]
    np.testing.assert_allclose(found.error, np.sqrt(np.mean(np.square(errors), axis=0)))


def test_a_domain_that_fails_a_test_is_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_targets", lambda own: estimates(1.0, sites()))
    whole = held_out_gains(sites(0.03), {})
    assert whole.log_loss == 0  # one test has the whole level
    rng = np.random.default_rng(0)
    rows = {n: TypicalRows(rng.uniform(size=50), np.arange(50) % 2) for n in range(4)}
    assert held_out_gains(sites(0.03), rows).log_loss > 0  # of two, each has a half
