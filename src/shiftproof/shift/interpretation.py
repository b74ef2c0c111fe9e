"""Describe a diagnosis in words: whether each shift was found, and how large it is.

`judging` defines the rule.  The maximum of concept shift is the label's remaining uncertainty given
the inputs (for numeric labels, the domain's).  If inputs almost determine the domain, labels of the
same input cannot be compared; concept shift that is not found is then *overlap*: undecidable.

Amounts are lower bounds: what the classifiers of `posteriors` detect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import entr  # type: ignore[import-untyped]

from shiftproof.information import Shift
from shiftproof.shift.diagnosis import Diagnosis, ModelShift, NumberPrediction, Prediction
from shiftproof.shift.judging import (
    Finding,
    State,
    judged,
    nats,
    not_found,
    percent,
    short,
    size_of,
    state_of,
)
from shiftproof.shift.number_findings import number_concept, number_label, number_within_label

# Domains hardly overlap if less than this share of the domain's entropy remains given the inputs.
OVERLAP = 0.1


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Return the findings on covariate, label, concept and within-label shift, in this order."""
    if isinstance(diagnosis.prediction, Prediction):
        told = _label(diagnosis), _concept(diagnosis, diagnosis.prediction)
        return (_covariate(diagnosis), *told, _within_label(diagnosis))
    numbers = number_label(diagnosis), _number_concept(diagnosis, diagnosis.prediction)
    return (_covariate(diagnosis), *numbers, number_within_label(diagnosis))


def concept_state(diagnosis: Diagnosis, shift: Shift) -> State:
    """Return whether inputs (or representations) show concept shift."""
    state = state_of(shift.concept, max(diagnosis.most_concept_shift(shift), 1e-12))
    left = diagnosis.domain_entropy - shift.covariate.value
    return "overlap" if state != "found" and left < OVERLAP * diagnosis.domain_entropy else state


def kinds_of(found: Sequence[Finding]) -> tuple[str, ...]:
    """Return the kinds of shift found; only label shift if the others follow from it.

    If inputs of each class are the same in all domains, only the class proportions differ; inputs,
    and what they say about the label, then differ as a consequence.
    """
    there = {each.shift for each in found if each.state == "found"}
    if "label" in there and "within_label" not in there:
        return ("label",)
    return tuple(kind for kind in ("covariate", "label", "concept") if kind in there)


def summary(finding: Finding, *, numbers: bool = False) -> str:
    """Return a short summary of a finding; `numbers` is True for numeric labels."""
    of = {
        "covariate": "of the domain is told by the inputs",
        "label": "of the label is told by the domain",
        "concept": "of the label's remaining uncertainty",
        "within_label": "of the domain is told by inputs of one class",
    }[finding.shift]
    if numbers:
        of = {
            "label": "of the domain is told by the label",
            "concept": "of the domain's remaining uncertainty is taken by the label",
            "within_label": "of the domain is told by inputs beyond the label",
        }.get(finding.shift, of)
    return {
        "found": f"found: {percent(finding.share)} {of}",
        "small": f"too small to mind: {percent(finding.share)} {of}",
        "none": f"none: more than {percent(finding.at_most)} would have shown",
        "untold": f"cannot be told: too few samples (up to {percent(finding.at_most)})",
        "overlap": "cannot be told: the domains hardly overlap",
    }[finding.state]


def model_reading(diagnosis: Diagnosis, model: ModelShift) -> str:
    """Describe the shifts that remain in a model's representation, and whether its risks differ."""
    x, r = diagnosis.shift, model.shift
    text = (
        f"{model.name}: the covariate shift of its representation is {nats(r.covariate.value)}"
        f" nats, where the inputs have {nats(x.covariate.value)}."
    )
    state = concept_state(diagnosis, r)
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
        f" Its mean risk goes from {model.risks[best]:.2f} ({short(diagnosis.domains[best])}) to"
        f" {model.risks[worst]:.2f} ({short(diagnosis.domains[worst])});"
        f" I(L;D) = {nats(model.risk_shift.value)}, {'more' if differ else 'no more'} than chance"
        " would show."
    )


def _covariate(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.covariate, diagnosis.domain_entropy
    state, share, at_most = judged(estimate, most)
    count = len(diagnosis.domains)
    if state == "found":
        text = (
            f"The inputs differ between domains ({size_of(share)}): classifiers name the right one"
            f" of {count} for {percent(diagnosis.prediction.domain)} of the samples, guessing would"
            f" for {percent(1 / count)}. Inputs tell {percent(share)} of what there is to know"
            f" about the domain."
        )
    else:
        text = not_found("that the inputs differ between domains", state, estimate, share, at_most)
    return Finding("covariate", estimate.symbol, state, share, at_most, text)


def _label(diagnosis: Diagnosis) -> Finding:
    shares = np.array([each.shares for each in diagnosis.moved_classes])
    most = float(entr(shares.mean(axis=1)).sum())
    estimate = diagnosis.shift.label
    state, share, at_most = judged(estimate, most)
    if state == "found":
        moved = int((shares.max(axis=1) - shares.min(axis=1)).argmax())
        low, high = int(shares[moved].argmin()), int(shares[moved].argmax())
        text = (
            f"The proportions of the labels differ ({size_of(share)}):"
            f" {short(diagnosis.classes[moved])!r} is {percent(shares[moved, low])} of"
            f" {short(diagnosis.domains[low])} and {percent(shares[moved, high])} of"
            f" {short(diagnosis.domains[high])}. The domain alone tells {percent(share)} of what"
            " there is to know about the label."
        )
    else:
        text = not_found(
            "that the proportions of the labels differ", state, estimate, share, at_most
        )
    return Finding("label", estimate.symbol, state, share, at_most, text)


def _concept(diagnosis: Diagnosis, prediction: Prediction) -> Finding:
    estimate = diagnosis.shift.concept
    _, share, at_most = judged(estimate, prediction.uncertainty)
    state = concept_state(diagnosis, diagnosis.shift)
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
    else:
        text = _no_concept(diagnosis, state, share, at_most)
    return Finding("concept", estimate.symbol, state, share, at_most, text)


def _number_concept(diagnosis: Diagnosis, prediction: NumberPrediction) -> Finding:
    estimate = diagnosis.shift.concept
    state = concept_state(diagnosis, diagnosis.shift)
    _, share, at_most = judged(estimate, diagnosis.most_concept_shift(diagnosis.shift))
    if state == "found":
        text = number_concept(estimate, share, prediction)
    else:
        text = _no_concept(diagnosis, state, share, at_most)
    return Finding("concept", estimate.symbol, state, share, at_most, text)


def _no_concept(diagnosis: Diagnosis, state: State, share: float, at_most: float) -> str:
    if state == "overlap":
        told = diagnosis.shift.covariate.value / diagnosis.domain_entropy
        return (
            "Whether the same input means another label cannot be told: the domains hardly"
            f" overlap. Inputs tell {percent(min(told, 1.0))} of the domain, so there are few"
            " inputs whose labels could be compared."
        )
    what = "that the same input means another label in another domain"
    return not_found(what, state, diagnosis.shift.concept, share, at_most)


def _within_label(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.within_label, diagnosis.domain_entropy
    state, share, at_most = judged(estimate, most)
    known = [each for each in diagnosis.moved_classes if each.within is not None]
    if state == "found" and known:
        first = max(known, key=lambda each: each.within or 0.0)
        last = min(known, key=lambda each: each.within or 0.0)
        text = (
            f"Inputs of one class differ between domains too: most of all those of"
            f" {short(first.name)!r} (they tell {percent(first.within or 0)} of the domain), least"
            f" those of {short(last.name)!r} ({percent(last.within or 0)})."
        )
    elif state == "found":
        text = "No class occurs in two domains."
    else:
        text = not_found(
            "that inputs of one class differ between domains", state, estimate, share, at_most
        )
    return Finding("within_label", estimate.symbol, state, share, at_most, text)
