"""What a command says of the class shares of a new site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from _internals import Adapted, Shares, adaptation_lines, shares_line

SHARES = Shares(
    value=np.array([0.25, 0.75]),
    low=np.array([0.2, 0.7]),
    high=np.array([0.3, 0.8]),
    em=np.array([0.22, 0.78]),
    bbse=np.array([0.4, 0.6]),
)
FOUND = Adapted(np.ones((1, 2)), "auto", True, "it helped", SHARES)


def test_shares_come_with_their_interval_and_the_two_estimates_to_compare_with():
    line = shares_line(FOUND, ["no", "yes"])
    assert line == (
        "estimated class shares: 'yes' 75% (70% to 80%), 'no' 25% (20% to 30%);"
        " to compare, EM 78%, 22%; BBSE 60%, 40%"
    )
    without = replace(FOUND, shares=replace(SHARES, bbse=None))
    assert shares_line(without, ["no", "yes"]).endswith("; to compare, EM 78%, 22%")


def test_a_site_has_a_line_on_what_was_done_and_one_on_its_shares():
    first, second = adaptation_lines({"north": FOUND}, ["no", "yes"])
    assert first == "adaptation, north: corrected for its class shares: it helped"
    assert second.startswith("adaptation, north: estimated class shares")
