"""What a command says of the class shares of a new site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from _internals import Adapted, Shares, adaptation_lines, shares_line

SHARES = Shares(
    value=np.array([0.25, 0.75]),
    low=np.array([0.2, 0.7]),
    high=np.array([0.3, 0.8]),
    used=np.array([0.4, 0.6]),
)
FOUND = Adapted(np.ones((1, 2)), True, "it helped", SHARES)


def test_shares_come_with_their_interval_and_what_was_corrected_to():
    line = shares_line(FOUND, ["no", "yes"])
    estimated = "estimated class shares: 'yes' 75% (70% to 80%), 'no' 25% (20% to 30%)"
    assert line == f"{estimated}; corrected to 60%, 40%"
    assert shares_line(replace(FOUND, corrected=False), ["no", "yes"]) == estimated


def test_a_site_has_a_line_on_what_was_done_and_one_on_its_shares():
    first, second = adaptation_lines({"north": FOUND}, ["no", "yes"])
    assert first == "adaptation, north: corrected for its class shares: it helped"
    assert second.startswith("adaptation, north: estimated class shares")
