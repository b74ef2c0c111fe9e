"""What adaptation did to the predictions of each new site, in words.

Adapted predictions use the rows of the new site, so they are never called generalization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.inference.adaptation.adapt import Adapted

# Classes that a line has room for: those whose share changes most.
MOST_CLASSES = 5


def adaptation_lines(adapted: Mapping[str, Adapted], classes: Sequence[str]) -> list[str]:
    """Return one line a site, and one with its estimated class shares if there are any."""
    found = []
    for site, own in adapted.items():
        done = "corrected for its class shares" if own.corrected else "not corrected"
        found.append(f"adaptation, {site}: {done}: {own.reason}")
        if own.shares is not None:
            found.append(f"adaptation, {site}: {shares_line(own, classes)}")
    return found


def shares_line(adapted: Adapted, classes: Sequence[str]) -> str:
    """Return the estimated class shares with their intervals, and those of the two checks."""
    shares = adapted.shares
    if shares is None:
        return ""
    order = np.argsort(-shares.value, kind="stable")[:MOST_CLASSES]
    parts = []
    for k in order:
        other = [f"EM {shares.em[k]:.0%}"]
        if shares.bbse is not None:
            other.append(f"BBSE {shares.bbse[k]:.0%}")
        parts.append(
            f"{classes[k]} {shares.value[k]:.0%} ({shares.low[k]:.0%} to {shares.high[k]:.0%};"
            f" {', '.join(other)})"
        )
    more = f" and {len(classes) - len(order)} others" if len(classes) > len(order) else ""
    return f"estimated class shares {', '.join(parts)}{more}"
