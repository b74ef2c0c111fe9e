"""A diagnosis in plain words: of each shift whether it is there, and how much of it.

One rule for all.  A shift is *found* if the lower end of its interval is above zero and the
estimate is worth minding: at least `WORTH` of what there could be (of concept shift, the label's
uncertainty that the inputs leave).  Above zero but less than that, it is *small*.  If the interval
reaches zero, its upper end decides: *none* if more than `NEGLIGIBLE` would have shown, else
*untold*.  Where inputs all but name the domain, labels of the same input cannot be compared, and
concept shift that is not found is *overlap*: it cannot be told.

Amounts are what the classifiers of `posteriors` see: lower bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import entr  # type: ignore[import-untyped]

from shiftproof.information import Estimate, Shift
from shiftproof.shift.diagnose import Diagnosis, ModelShift

State = Literal["found", "small", "none", "untold", "overlap"]

# A shift of less than this share of what there could be is not worth minding.
WORTH = 0.01
# A shift that cannot be larger than this share of its maximum counts as none.
NEGLIGIBLE = 0.05
# Domains hardly overlap if inputs leave less than this share of the domain's uncertainty.
OVERLAP = 0.1
SIZES = (
    (0.01, "very little"),
    (0.05, "a little"),
    (0.25, "moderately"),
    (0.8, "strongly"),
    (np.inf, "almost completely"),
)
LONGEST_NAME = 40


@dataclass(frozen=True)
class Finding:
    """One shift: whether it is there, as a share of what there could be, and in words.

    `at_most` is the share that the interval's upper end stands for.
    """

    shift: str
    symbol: str
    state: State
    share: float
    at_most: float
    text: str


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Read covariate, label, concept and within-label shift, in this order."""
    return (
        _covariate(diagnosis),
        _label(diagnosis),
        _concept(diagnosis),
        _within_label(diagnosis),
    )


def state_of(estimate: Estimate, most: float) -> State:
    """Say whether a shift is there, if `most` is all there could be."""
    low, high = estimate.interval
    if low > 0:
        return "found" if estimate.value >= WORTH * most else "small"
    return "none" if high <= NEGLIGIBLE * most else "untold"


def concept_state(shift: Shift, uncertainty: float, domain_entropy: float) -> State:
    """Say whether there is concept shift, of the label's remaining `uncertainty`."""
    state = state_of(shift.concept, uncertainty)
    left = domain_entropy - shift.covariate.value
    return "overlap" if state != "found" and left < OVERLAP * domain_entropy else state


def kinds_of(found: Sequence[Finding]) -> tuple[str, ...]:
    """Return the kinds of shift found; label shift alone if all else follows from it.

    Where inputs of one class are the same in all domains, only the proportions of the classes
    differ: inputs, and what they say of the label, then differ as a consequence.
    """
    there = {each.shift for each in found if each.state == "found"}
    if "label" in there and "within_label" not in there:
        return ("label",)
    return tuple(kind for kind in ("covariate", "label", "concept") if kind in there)


def summary(finding: Finding) -> str:
    """Return a finding in a few words."""
    of = {
        "covariate": "of the domain is told by the inputs",
        "label": "of the label is told by the domain",
        "concept": "of the label's remaining uncertainty",
        "within_label": "of the domain is told by inputs of one class",
    }[finding.shift]
    return {
        "found": f"found: {percent(finding.share)} {of}",
        "small": f"too small to mind: {percent(finding.share)} {of}",
        "none": f"none: more than {percent(finding.at_most)} would have shown",
        "untold": f"cannot be told: too few samples (up to {percent(finding.at_most)})",
        "overlap": "cannot be told: the domains hardly overlap",
    }[finding.state]


def model_reading(diagnosis: Diagnosis, model: ModelShift) -> str:
    """Say what a model's representation keeps of the shifts, and whether its risks differ."""
    x, r = diagnosis.shift, model.shift
    text = (
        f"{model.name}: the covariate shift of its representation is {nats(r.covariate.value)}"
        f" nats, where the inputs have {nats(x.covariate.value)}."
    )
    state = concept_state(r, diagnosis.prediction.uncertainty, diagnosis.domain_entropy)
    text += {
        "found": f" The same representation means another label in another domain: I(Y;D|R) ="
        f" {nats(r.concept.value)} (of the inputs: {nats(x.concept.value)}).",
        "small": " It shows a concept shift too small to mind:"
        f" I(Y;D|R) = {nats(r.concept.value)}.",
        "overlap": " Whether the same representation means another label cannot be told: the"
        " domains hardly overlap in it.",
        "none": " It shows no concept shift.",
        "untold": f" It shows no concept shift, but up to {nats(r.concept.interval[1])} nats may be"
        " unseen.",
    }[state]
    worst, best = int(np.argmax(model.risks)), int(np.argmin(model.risks))
    differ = model.risk_shift.p_value is not None and (
        model.risk_shift.p_value <= 1 - diagnosis.level
    )
    return text + (
        f" Its mean risk goes from {model.risks[best]:.2f} ({_short(diagnosis.domains[best])}) to"
        f" {model.risks[worst]:.2f} ({_short(diagnosis.domains[worst])});"
        f" I(L;D) = {nats(model.risk_shift.value)}, {'more' if differ else 'no more'} than chance"
        " would show."
    )


def _covariate(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.covariate, diagnosis.domain_entropy
    state, share, at_most = _judged(estimate, most)
    count = len(diagnosis.domains)
    if state == "found":
        text = (
            f"The inputs differ between domains ({_size(share)}): classifiers name the right one of"
            f" {count} for {percent(diagnosis.prediction.domain)} of the samples, guessing would"
            f" for {percent(1 / count)}. Inputs tell {percent(share)} of what there is to know"
            f" about the domain."
        )
    else:
        text = _not_found("that the inputs differ between domains", state, estimate, share, at_most)
    return Finding("covariate", estimate.symbol, state, share, at_most, text)


def _label(diagnosis: Diagnosis) -> Finding:
    shares = np.array([each.shares for each in diagnosis.moved_classes])
    most = float(entr(shares.mean(axis=1)).sum())
    estimate = diagnosis.shift.label
    state, share, at_most = _judged(estimate, most)
    if state == "found":
        moved = int((shares.max(axis=1) - shares.min(axis=1)).argmax())
        low, high = int(shares[moved].argmin()), int(shares[moved].argmax())
        text = (
            f"The proportions of the labels differ ({_size(share)}):"
            f" {_short(diagnosis.classes[moved])!r} is {percent(shares[moved, low])} of"
            f" {_short(diagnosis.domains[low])} and {percent(shares[moved, high])} of"
            f" {_short(diagnosis.domains[high])}. The domain alone tells {percent(share)} of what"
            " there is to know about the label."
        )
    else:
        text = _not_found(
            "that the proportions of the labels differ", state, estimate, share, at_most
        )
    return Finding("label", estimate.symbol, state, share, at_most, text)


def _concept(diagnosis: Diagnosis) -> Finding:
    estimate, prediction = diagnosis.shift.concept, diagnosis.prediction
    _, share, at_most = _judged(estimate, prediction.uncertainty)
    state = concept_state(diagnosis.shift, prediction.uncertainty, diagnosis.domain_entropy)
    if state == "found":
        text = (
            "The same input means another label in another domain: to know the domain takes"
            f" {percent(share)} off the uncertainty of the label that the input leaves"
            f" ({nats(estimate.value)} of {nats(prediction.uncertainty)} nats)."
        )
        gain = prediction.label_knowing_domain - prediction.label
        if gain > 0.01:
            text += (
                f" Classifiers get {percent(prediction.label)} of the labels right, and"
                f" {percent(prediction.label_knowing_domain)} if they are told the domain."
            )
        else:
            text += " That changes few answers between these domains; the next may differ more."
    elif state == "overlap":
        told = diagnosis.shift.covariate.value / diagnosis.domain_entropy
        text = (
            "Whether the same input means another label cannot be told: the domains hardly"
            f" overlap. Inputs tell {percent(min(told, 1.0))} of the domain, so there are few"
            " inputs whose labels could be compared."
        )
    else:
        what = "that the same input means another label in another domain"
        text = _not_found(what, state, estimate, share, at_most)
    return Finding("concept", estimate.symbol, state, share, at_most, text)


def _within_label(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.within_label, diagnosis.domain_entropy
    state, share, at_most = _judged(estimate, most)
    known = [each for each in diagnosis.moved_classes if each.within is not None]
    if state == "found" and known:
        first = max(known, key=lambda each: each.within or 0.0)
        last = min(known, key=lambda each: each.within or 0.0)
        text = (
            f"Inputs of one class differ between domains too: most of all those of"
            f" {_short(first.name)!r} (they tell {percent(first.within or 0)} of the domain), least"
            f" those of {_short(last.name)!r} ({percent(last.within or 0)})."
        )
    elif state == "found":
        text = "No class occurs in two domains."
    else:
        text = _not_found(
            "that inputs of one class differ between domains", state, estimate, share, at_most
        )
    return Finding("within_label", estimate.symbol, state, share, at_most, text)


def _judged(estimate: Estimate, most: float) -> tuple[State, float, float]:
    """Return the state, and value and upper end as shares of what there could be."""
    most = max(most, 1e-12)
    share, at_most = (min(each / most, 1.0) for each in (estimate.value, estimate.interval[1]))
    return state_of(estimate, most), share, at_most


def _not_found(what: str, state: State, estimate: Estimate, share: float, at_most: float) -> str:
    if state == "small":
        return (
            f"A sign {what}, too small to mind: {nats(estimate.value)} nats, {percent(share)} of"
            f" what there could be (less than {percent(WORTH)})."
        )
    if state == "none":
        return (
            f"No sign {what}: more than {nats(estimate.interval[1])} nats, {percent(at_most)} of"
            " what there could be, would have shown to these classifiers."
        )
    return (
        f"No sign {what}, but too few samples to exclude it: up to {nats(estimate.interval[1])}"
        f" nats, {percent(at_most)} of what there could be, may be unseen."
    )


def _size(share: float) -> str:
    return next(word for limit, word in SIZES if share < limit)


def nats(value: float) -> str:
    """Return an amount with two digits that count.

    >>> [nats(v) for v in (0, 0.00012, 0.0073, 0.123, 1.386)]
    ['0', '0.00012', '0.0073', '0.12', '1.39']
    """
    if value >= 0.1:
        return f"{value:.2f}"
    return f"{value:.2g}" if value >= 1e-4 else "0"


def percent(share: float) -> str:
    """Return a share in percent; the smallest and the largest keep what they are.

    >>> [percent(s) for s in (0, 0.004, 0.034, 0.35, 0.997, 1)]
    ['0%', '0.4%', '3.4%', '35%', '99.7%', '100%']
    """
    near_an_end = 0 < share < 0.095 or 0.99 < share < 1
    return f"{100 * share:.1f}%" if near_an_end else f"{100 * share:.0f}%"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
