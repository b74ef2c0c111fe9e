"""Describe the findings for numeric labels in words.

A number has no entropy to take a share of, so all shares refer to the domain's entropy: I(Y;D) is
at most H(D), and I(Y;D|X) at most H(D|X).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shiftproof.core.text import three_digits
from shiftproof.information import Estimate
from shiftproof.shift.diagnosis import Diagnosis, NumberPrediction
from shiftproof.shift.judging import Finding, judged, nats, not_found, percent, short, size_of

# A smaller increase of the explained variance is not worth a remark.
EXPLAINED_MORE = 0.01


def number_label(diagnosis: Diagnosis) -> Finding:
    """Return the finding on label shift."""
    estimate = diagnosis.shift.label
    state, share, at_most = judged(estimate, diagnosis.domain_entropy)
    if state == "found":
        mean = _from_to(diagnosis, [own.mean for own in diagnosis.numbers])
        deviation = _from_to(diagnosis, [own.deviation for own in diagnosis.numbers])
        text = (
            f"The labels differ {size_of(share)} between domains. Their mean ranges from {mean},"
            f" and their standard deviation from {deviation}. The label explains {percent(share)}"
            " of the uncertainty about the domain."
        )
    else:
        what = "the labels differ between domains"
        text = not_found(what, state, estimate, share, at_most)
    return Finding("label", estimate.symbol, state, share, at_most, text)


def _from_to(diagnosis: Diagnosis, values: Sequence[float]) -> str:
    """Return the lowest and the highest value, with their domains."""
    low, high = int(np.argmin(values)), int(np.argmax(values))
    return (
        f"{three_digits(values[low])} in {short(diagnosis.domains[low])} to"
        f" {three_digits(values[high])} in {short(diagnosis.domains[high])}"
    )


def number_concept(estimate: Estimate, share: float, prediction: NumberPrediction) -> str:
    """Return the text for concept shift that was found."""
    text = (
        "The relation between input and label differs between domains: given the input, knowing"
        f" the label reduces the uncertainty about the domain by {percent(share)}"
        f" ({nats(estimate.value)} nats)."
    )
    r2, known = prediction.r2, prediction.r2_knowing_domain
    if known - r2 > EXPLAINED_MORE:
        return text + (
            f" Models explain {percent(max(r2, 0.0))} of the label's variance, and"
            f" {percent(max(known, 0.0))} if they know the domain."
        )
    return text + (
        f" Knowing the domain increases R² by no more than {100 * EXPLAINED_MORE:.0f} point, so the"
        " labels differ mainly in their spread, or for few inputs. A new domain may differ more."
    )


def number_within_label(diagnosis: Diagnosis) -> Finding:
    """Return the finding on whether inputs differ beyond what the label explains."""
    estimate = diagnosis.shift.within_label
    state, share, at_most = judged(estimate, diagnosis.domain_entropy)
    if state == "found":
        text = (
            f"Inputs with the same label differ {size_of(share)} between domains. In addition to"
            f" the label, they explain {percent(share)} of the uncertainty about the domain."
        )
    else:
        what = "inputs with the same label differ between domains"
        text = not_found(what, state, estimate, share, at_most)
    return Finding("within_label", estimate.symbol, state, share, at_most, text)
