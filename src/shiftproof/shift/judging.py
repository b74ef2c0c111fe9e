"""Decide whether a shift was found, and how large it is relative to its maximum.

The rule is the same for all shifts.  A shift is *found* if the lower end of its interval is above
zero and the estimate is at least `WORTH` of its maximum; if the estimate is smaller, the shift is
*small*.  If the interval reaches zero, its upper end decides: *none* if it is at most `NEGLIGIBLE`
of the maximum, else *untold*: there are too few samples to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shiftproof.information import Estimate

State = Literal["found", "small", "none", "untold", "overlap"]

# A shift below this share of its maximum is too small to matter.
WORTH = 0.01
# A shift that cannot be larger than this share of its maximum counts as none.
NEGLIGIBLE = 0.05
SIZES = (
    (0.01, "very slightly"),
    (0.05, "slightly"),
    (0.25, "moderately"),
    (0.8, "strongly"),
    (np.inf, "almost completely"),
)
LONGEST_NAME = 40


@dataclass(frozen=True)
class Finding:
    """A finding on one shift: its state, its share of the maximum, and a description.

    `at_most` is the upper end of the interval as a share of the maximum.
    """

    shift: str
    symbol: str
    state: State
    share: float
    at_most: float
    text: str


def state_of(estimate: Estimate, most: float) -> State:
    """Return the state of a shift whose maximum is `most`."""
    low, high = estimate.interval
    if low > 0:
        return "found" if estimate.value >= WORTH * most else "small"
    return "none" if high <= NEGLIGIBLE * most else "untold"


def finding_on(
    shift: str,
    estimate: Estimate,
    most: float,
    what: str,
    found: Callable[[float], str],
    *,
    by: str = " by these classifiers",
    overlap: str = "",
) -> Finding:
    """Return the finding on a shift whose maximum is `most`.

    `what` is a clause that states the shift, `found` describes its share of the maximum if it was
    found, and `by` says how it would have been detected.  If it was not found and the domains
    hardly overlap, `overlap` is the text.
    """
    most = max(most, 1e-12)
    share, at_most = (min(amount / most, 1.0) for amount in (estimate.value, estimate.interval[1]))
    state = state_of(estimate, most)
    high = f"{percent(at_most)} of its maximum ({nats(estimate.interval[1])} nats)"
    if state == "found":
        text = found(share)
    elif overlap:
        state, text = "overlap", overlap
    elif state == "small":
        text = (
            f"{what[0].upper()}{what[1:]}, but the shift is too small to matter: {percent(share)}"
            f" of its maximum ({nats(estimate.value)} nats), below the threshold of"
            f" {percent(WORTH)}."
        )
    elif state == "none":
        text = f"No evidence that {what}. A shift above {high} would have been detected{by}."
    else:
        text = (
            f"No evidence that {what}, but there are too few samples to rule it out. A shift of up"
            f" to {high} may be undetected."
        )
    return Finding(shift, estimate.symbol, state, share, at_most, text)


def size_of(share: float) -> str:
    """Return an adverb for the size of a share."""
    return next(word for limit, word in SIZES if share < limit)


def nats(value: float) -> str:
    """Return an amount with two significant digits, or two decimals from 0.1.

    >>> [nats(v) for v in (0, 0.00012, 0.0073, 0.123, 1.386)]
    ['0', '0.00012', '0.0073', '0.12', '1.39']
    """
    if value >= 0.1:
        return f"{value:.2f}"
    return f"{value:.2g}" if value >= 1e-4 else "0"


def percent(share: float) -> str:
    """Return a share in percent, with one decimal if it is close to 0 or 1.

    >>> [percent(s) for s in (0, 0.004, 0.034, 0.35, 0.997, 1)]
    ['0%', '0.4%', '3.4%', '35%', '99.7%', '100%']
    """
    near_an_end = 0 < share < 0.095 or 0.99 < share < 1
    return f"{100 * share:.1f}%" if near_an_end else f"{100 * share:.0f}%"


def short(name: str) -> str:
    """Shorten a name to fit into a sentence."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
