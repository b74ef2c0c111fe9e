"""Describe a diagnosis in words: whether each shift was found, and how large it is.

`judging` defines the rule.  The maximum of concept shift is the label's remaining uncertainty given
the inputs (for numeric labels, the domain's).  If inputs almost determine the domain, labels of the
same input cannot be compared; concept shift that is not found is then *overlap*: inconclusive.

Amounts are lower bounds: what the classifiers of `posteriors` detect.

A number has no entropy to take a share of, so all shares refer to the domain's entropy: I(Y;D) is
at most H(D), and I(Y;D|X) at most H(D|X).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import entr  # type: ignore[import-untyped]

from shiftproof.core.text import three_digits
from shiftproof.information import Estimate, Shift
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

# Domains hardly overlap if less than this share of the domain's entropy remains given the inputs.
OVERLAP = 0.1


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Return the findings on covariate, label, concept and within-label shift, in this order."""
    if isinstance(diagnosis.prediction, Prediction):
        classes = _label(diagnosis), _concept(diagnosis, diagnosis.prediction)
        return (_covariate(diagnosis), *classes, _within_label(diagnosis))
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
    return {
        "found": f"found: {explained(finding, numbers=numbers)}",
        "small": f"too small to matter: {explained(finding, numbers=numbers)}",
        "none": f"none: more than {percent(finding.at_most)} would have been detected",
        "untold": f"inconclusive: too few samples (may be up to {percent(finding.at_most)})",
        "overlap": "inconclusive: the domains hardly overlap",
    }[finding.state]


def explained(finding: Finding, *, numbers: bool = False) -> str:
    """Return the size of a shift as a share of the entropy that it explains.

    >>> explained(Finding("label", "I(Y;D)", "found", 0.12, 0.2, ""))
    "the domain explains 12% of the label's entropy"
    """
    share = percent(finding.share)
    if numbers and finding.shift != "covariate":
        return {
            "label": f"the label explains {share} of the domain's entropy",
            "concept": f"the label explains {share} of the domain's entropy given the inputs",
            "within_label": f"beyond the label, inputs explain {share} of the domain's entropy",
        }[finding.shift]
    return {
        "covariate": f"inputs explain {share} of the domain's entropy",
        "label": f"the domain explains {share} of the label's entropy",
        "concept": f"the domain explains {share} of the label's entropy given the inputs",
        "within_label": f"within a class, inputs explain {share} of the domain's entropy",
    }[finding.shift]


def describe_model(diagnosis: Diagnosis, model: ModelShift) -> str:
    """Describe the shifts that remain in a model's representation, and whether its risks differ."""
    x, r = diagnosis.shift, model.shift
    text = (
        f"{model.name}: the covariate shift of its representation is {nats(r.covariate.value)}"
        f" nats (inputs: {nats(x.covariate.value)})."
    )
    state = concept_state(diagnosis, r)
    text += {
        "found": " The relation between representation and label differs between domains:"
        f" I(Y;D|R) = {nats(r.concept.value)} nats (inputs: {nats(x.concept.value)}).",
        "small": " The concept shift in the representation is too small to matter:"
        f" I(Y;D|R) = {nats(r.concept.value)} nats.",
        "overlap": " Concept shift in the representation cannot be measured, because the domains"
        " hardly overlap in it.",
        "none": " No concept shift was found in the representation.",
        "untold": " No concept shift was found in the representation, but up to"
        f" {nats(r.concept.interval[1])} nats may be undetected.",
    }[state]
    worst, best = int(np.argmax(model.risks)), int(np.argmin(model.risks))
    differ = model.risk_shift.p_value is not None and (
        model.risk_shift.p_value <= 1 - diagnosis.level
    )
    return text + (
        f" Its mean risk ranges from {model.risks[best]:.2f} ({short(diagnosis.domains[best])}) to"
        f" {model.risks[worst]:.2f} ({short(diagnosis.domains[worst])}). Its risks"
        f" {'differ' if differ else 'do not differ'} significantly between domains: I(L;D) ="
        f" {nats(model.risk_shift.value)} nats."
    )


def _covariate(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.covariate, diagnosis.domain_entropy
    state, share, at_most = judged(estimate, most)
    count = len(diagnosis.domains)
    if state == "found":
        text = (
            f"The inputs differ {size_of(share)} between domains. From the inputs, classifiers"
            f" predict the correct domain for {percent(diagnosis.prediction.domain)} of the samples"
            f" (chance: {percent(1 / count)}). The inputs explain {percent(share)} of the"
            " uncertainty about the domain."
        )
    else:
        text = not_found("the inputs differ between domains", state, estimate, share, at_most)
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
            f"The label proportions differ {size_of(share)} between domains. The share of"
            f" {short(diagnosis.classes[moved])!r} ranges from {percent(shares[moved, low])}"
            f" ({short(diagnosis.domains[low])}) to {percent(shares[moved, high])}"
            f" ({short(diagnosis.domains[high])}). The domain explains {percent(share)} of the"
            " uncertainty about the label."
        )
    else:
        what = "the label proportions differ between domains"
        # The proportions are counted, without classifiers.
        text = not_found(what, state, estimate, share, at_most, by="")
    return Finding("label", estimate.symbol, state, share, at_most, text)


def _concept(diagnosis: Diagnosis, prediction: Prediction) -> Finding:
    estimate = diagnosis.shift.concept
    _, share, at_most = judged(estimate, prediction.uncertainty)
    state = concept_state(diagnosis, diagnosis.shift)
    if state == "found":
        text = (
            "The relation between input and label differs between domains: given the input,"
            f" knowing the domain reduces the uncertainty about the label by {percent(share)}"
            f" ({nats(estimate.value)} of {nats(prediction.uncertainty)} nats)."
        )
        gain = prediction.label_knowing_domain - prediction.label
        if gain > 0.01:
            text += (
                f" Classifiers predict {percent(prediction.label)} of the labels correctly, and"
                f" {percent(prediction.label_knowing_domain)} if they know the domain."
            )
        else:
            text += (
                " Knowing the domain increases the accuracy on these domains by no more than 1"
                " point. A new domain may differ more."
            )
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
        of_domain = diagnosis.shift.covariate.value / diagnosis.domain_entropy
        return (
            "Concept shift cannot be measured, because the domains hardly overlap. The inputs"
            f" explain {percent(min(of_domain, 1.0))} of the uncertainty about the domain, so few"
            " inputs of different domains are similar enough to compare their labels."
        )
    what = "the relation between input and label differs between domains"
    return not_found(what, state, diagnosis.shift.concept, share, at_most)


def _within_label(diagnosis: Diagnosis) -> Finding:
    estimate, most = diagnosis.shift.within_label, diagnosis.domain_entropy
    state, share, at_most = judged(estimate, most)
    known = [each for each in diagnosis.moved_classes if each.within is not None]
    if state == "found" and known:
        first = max(known, key=lambda each: each.within or 0.0)
        last = min(known, key=lambda each: each.within or 0.0)
        text = (
            f"Inputs of the same class differ between domains, most for {short(first.name)!r},"
            f" where they explain {percent(first.within or 0)} of the uncertainty about the domain"
        )
        if len(known) > 1:
            text += f", and least for {short(last.name)!r} ({percent(last.within or 0)})"
        text += "."
    elif state == "found":
        text = "No class occurs in more than one domain."
    else:
        what = "inputs of the same class differ between domains"
        text = not_found(what, state, estimate, share, at_most)
    return Finding("within_label", estimate.symbol, state, share, at_most, text)


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
