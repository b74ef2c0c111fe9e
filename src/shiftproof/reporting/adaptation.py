"""What adaptation did to the predictions of each new site, in words.

Adapted predictions use the rows of the new site, so they are never called generalization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.core.text import counted
from shiftproof.inference.adaptation.compare_sites import Comparison
from shiftproof.inference.adaptation.label_shift import Adapted
from shiftproof.inference.adaptation.recalibrate import METHODS, Recalibration

# The most classes in a line: those with the largest estimated shares.
MOST_CLASSES = 5
# The most training domains in a comparison.
MOST_DOMAINS = 8


def adaptation_lines(adapted: Mapping[str, Adapted], classes: Sequence[str]) -> list[str]:
    """Return one line per site, and one with its estimated class shares if there are any."""
    lines = []
    for site, result in adapted.items():
        done = "corrected for its class shares" if result.corrected else "not corrected"
        lines.append(f"adaptation, {site}: {done}: {result.reason}")
        if result.shares is not None:
            lines.append(f"adaptation, {site}: {shares_line(result, classes)}")
    return lines


def shares_line(adapted: Adapted, classes: Sequence[str]) -> str:
    """Return the estimated class shares with intervals, and those that were corrected to."""
    shares = adapted.shares
    if shares is None:
        return ""
    order = np.argsort(-shares.value, kind="stable")[:MOST_CLASSES]
    parts = [
        f"{classes[k]!r} {shares.value[k]:.0%} ({shares.low[k]:.0%} to {shares.high[k]:.0%})"
        for k in order
    ]
    more = f" and {len(classes) - len(order)} others" if len(classes) > len(order) else ""
    used = f"; corrected to {', '.join(f'{shares.used[k]:.0%}' for k in order)}"
    return f"estimated class shares: {', '.join(parts)}{more}{used if adapted.corrected else ''}"


def recalibration_lines(result: Recalibration) -> list[str]:
    """Return which update was chosen and why, and the scores before and after."""
    choices = {
        "original": "the trained model is kept: the rows do not support a change",
        "intercept": "new intercepts",
        "slope": "new intercepts and slope",
        "revision": "new intercepts, slope and effects of the features, shrunk toward the model",
    }
    lines = [f"recalibration from {result.rows} labelled rows: {choices[result.method]}"]
    largest = METHODS[-1] if result.revisable else METHODS[-2]
    lines += [
        f"  {largest} against {step.against}: chi-square {step.statistic:.1f} with"
        f" {counted(step.freedom, 'degree')} of freedom, p = {step.p_value:.2g}"
        for step in result.steps
    ]
    if not result.revisable:
        lines.append("  a revision needs ten rows of the rarest class for each feature")
    for name, (change, low, high) in result.change.items():
        lines.append(
            f"{name.replace('_', ' ')}: {result.before[name]:.3f} before, {result.after[name]:.3f}"
            f" after (cross-validated); change {change:+.3f} ({low:+.3f} to {high:+.3f})"
        )
    lines.append("These are results of adaptation to this site.")
    return lines


def comparison_lines(comparison: Comparison, classes: Sequence[str]) -> list[str]:
    """Return the comparison of a new site with the training domains, in one screen."""
    lines = [
        f"{comparison.rows} rows; {comparison.far:.1%} of them far from every training domain",
        f"most like: {comparison.nearest}",
        "distance to the training domains, in standard deviations within domains:",
    ]
    nearest = list(comparison.distances.items())[:MOST_DOMAINS]
    lines += [f"  {name}: {distance:.2f}" for name, distance in nearest]
    if (more := len(comparison.distances) - len(nearest)) > 0:
        lines.append(f"  and {more} more, further away")
    if comparison.shifts:
        parts = [f"{name} {value:+.2f}" for name, value in comparison.shifts.items()]
        lines.append(
            f"largest differences from {comparison.nearest}, in standard deviations:"
            f" {', '.join(parts)}"
        )
    if comparison.new_values:
        parts = [f"{name} {share:.0%}" for name, share in comparison.new_values.items()]
        lines.append(f"columns with values outside the range of training: {', '.join(parts)}")
    if comparison.accuracy is not None:
        value, low, high = comparison.accuracy
        lines.append(f"expected accuracy without adaptation: {value:.0%} ({low:.0%} to {high:.0%})")
    return lines + adaptation_lines({"this site": comparison.adaptation}, classes)
