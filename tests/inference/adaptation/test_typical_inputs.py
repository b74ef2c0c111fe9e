"""Rows of a new site that are less typical than those of held-out training domains are told."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import TypicalInputs, Typicality, TypicalRows, typical_inputs

LEVEL = 0.05


def sites(rng, shares, rows, spread=0.0, drift=0.0):
    """Return the representations and classes of sites: class 1 has other means and more spread."""
    found = []
    for share in shares:
        y = (rng.random(rows) < share).astype(int)
        x = rng.normal(size=(rows, 6)) * (1 + y[:, None]) + y[:, None]
        found.append((x + spread * rng.normal(size=6) + drift * (np.arange(6) < 3), y))
    return found


def described(training):
    """Return the typicality of training sites, and how typical each is compared with the others."""
    tensors = {str(place): x for place, (x, _) in enumerate(training)}
    typicality = Typicality.fit(tensors, tensors)
    found = [
        TypicalRows(typicality.p_value(x, without=place), y)
        for place, (x, y) in enumerate(training)
    ]
    return typicality, typical_inputs(found, 2)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_other_shares_are_accepted_and_drift_is_told(spread):
    """60 new sites with other class shares, at a level of 5%; then with half of the columns moved.

    Class 1 is less typical: without its own mean, more of it would look like drift.  Where sites
    differ as much as that, drift cannot be told.
    """
    rng, called, drifted, blind = np.random.default_rng(1), 0, 0, 0
    for _ in range(60):
        typicality, record = described(sites(rng, rng.uniform(0.2, 0.5, 6), 200, spread))
        share = rng.uniform(0.6, 0.95)
        shares = np.array([1 - share, share])
        for drift in (0.0, 1.5):
            ((x, _),) = sites(rng, [share], 300, spread, drift)
            p = typicality.p_value(x)
            if drift:
                drifted += record.p_value(p, shares) < LEVEL
            else:
                called += record.p_value(p, shares) < LEVEL
                mean = np.full(2, record.means.mean())
                blind += TypicalInputs(mean, record.spread, 6).p_value(p, shares) < LEVEL
    assert called <= 9  # a chance of 0.1% with 5%
    assert blind > called or spread
    assert drifted > 50 or spread == 1


def test_the_means_of_classes_and_the_spread_are_those_of_the_rows():
    first = TypicalRows(np.repeat([0.2, 0.6], 10), np.repeat([0, 1], 10))
    found = typical_inputs([first, TypicalRows(np.full(20, 0.4), np.arange(20) % 2)], 3)
    np.testing.assert_allclose(found.means, [0.3, 0.5, 0.4])  # no row of the last class
    assert found.spread == pytest.approx(0.0, abs=1e-12)
    assert found.domains == 2
    assert TypicalInputs.from_json(found.to_json()).to_json() == found.to_json()


def test_one_domain_tells_nothing():
    assert typical_inputs([TypicalRows(np.ones(20), np.zeros(20, int))], 2) is None
