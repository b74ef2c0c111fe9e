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
from typing import Any

import numpy as np
from scipy.special import entr

from shiftproof.core.text import three_digits
from shiftproof.information import Shift
from shiftproof.shift.diagnosis import Diagnosis, ModelShift, Prediction
from shiftproof.shift.judging import (
    Finding,
    State,
    finding_on,
    nats,
    percent,
    short,
    size_of,
    state_of,
)

# Domains hardly overlap if less than this share of the domain's entropy remains given the inputs.
OVERLAP = 0.1
# A smaller increase of the accuracy or of R² from knowing the domain is not worth a remark.
GAIN = 0.01


def findings(diagnosis: Diagnosis) -> tuple[Finding, ...]:
    """Return the findings on covariate, label, concept and within-label shift, in this order."""
    label = _class_label if isinstance(diagnosis.prediction, Prediction) else _number_label
    of_shifts = (_covariate, label, _concept, _within_label)
    return tuple(of_shift(diagnosis) for of_shift in of_shifts)


def concept_state(diagnosis: Diagnosis, shift: Shift) -> State:
    """Return whether inputs (or representations) show concept shift."""
    state = state_of(shift.concept, max(diagnosis.most_concept_shift(shift), 1e-12))
    left = diagnosis.domain_entropy - shift.covariate.value
    return "overlap" if state != "found" and left < OVERLAP * diagnosis.domain_entropy else state


def kinds_of(of_shifts: Sequence[Finding]) -> tuple[str, ...]:
    """Return the kinds of shift found; only label shift if the others follow from it.

    If inputs of each class are the same in all domains, only the class proportions differ; inputs,
    and what they say about the label, then differ as a consequence.
    """
    shifts = {finding.shift for finding in of_shifts if finding.state == "found"}
    if "label" in shifts and "within_label" not in shifts:
        return ("label",)
    return tuple(kind for kind in ("covariate", "label", "concept") if kind in shifts)


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
    of_classes, of_numbers, about = {
        "covariate": ("inputs explain", "inputs explain", "domain's entropy"),
        "label": ("the domain explains", "the label explains", "label's entropy"),
        "concept": (
            "the domain explains", "the label explains", "label's entropy given the inputs"
        ),
        "within_label": (
            "within a class, inputs explain", "beyond the label, inputs explain", "domain's entropy"
        ),
    }[finding.shift]  # fmt: skip
    if numbers:
        return f"{of_numbers} {percent(finding.share)} of the {about.replace('label', 'domain')}"
    return f"{of_classes} {percent(finding.share)} of the {about}"


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
    def found(share: float) -> str:
        return (
            f"The inputs differ {size_of(share)} between domains. From the inputs, classifiers"
            f" predict the correct domain for {percent(diagnosis.prediction.domain)} of the samples"
            f" (chance: {percent(1 / len(diagnosis.domains))}). The inputs explain {percent(share)}"
            " of the uncertainty about the domain."
        )

    estimate, most = diagnosis.shift.covariate, diagnosis.domain_entropy
    return finding_on("covariate", estimate, most, "the inputs differ between domains", found)


def _class_label(diagnosis: Diagnosis) -> Finding:
    shares = np.array([moved.shares for moved in diagnosis.moved_classes])

    def found(share: float) -> str:
        moved = int((shares.max(axis=1) - shares.min(axis=1)).argmax())
        low, high = int(shares[moved].argmin()), int(shares[moved].argmax())
        return (
            f"The label proportions differ {size_of(share)} between domains. The share of"
            f" {short(diagnosis.classes[moved])!r} ranges from {percent(shares[moved, low])}"
            f" ({short(diagnosis.domains[low])}) to {percent(shares[moved, high])}"
            f" ({short(diagnosis.domains[high])}). The domain explains {percent(share)} of the"
            " uncertainty about the label."
        )

    what = "the label proportions differ between domains"
    most = float(entr(shares.mean(axis=1)).sum())
    # The proportions are counted, without classifiers.
    return finding_on("label", diagnosis.shift.label, most, what, found, by="")


def _number_label(diagnosis: Diagnosis) -> Finding:
    def ranges(values: Sequence[float]) -> str:
        """Return the lowest and the highest value, with their domains."""
        ends = (int(np.argmin(values)), int(np.argmax(values)))
        texts = (f"{three_digits(values[i])} in {short(diagnosis.domains[i])}" for i in ends)
        return " to ".join(texts)

    def found(share: float) -> str:
        return (
            f"The labels differ {size_of(share)} between domains. Their mean ranges from"
            f" {ranges([labels.mean for labels in diagnosis.numbers])}, and their standard"
            f" deviation from {ranges([labels.deviation for labels in diagnosis.numbers])}. The"
            f" label explains {percent(share)} of the uncertainty about the domain."
        )

    estimate, most = diagnosis.shift.label, diagnosis.domain_entropy
    return finding_on("label", estimate, most, "the labels differ between domains", found)


def _concept(diagnosis: Diagnosis) -> Finding:
    estimate = diagnosis.shift.concept
    prediction: Any = diagnosis.prediction
    what = "the relation between input and label differs between domains"
    start = f"{what[0].upper()}{what[1:]}: given the input, knowing"

    def of_classes(share: float) -> str:
        text = (
            f"{start} the domain reduces the uncertainty about the label by {percent(share)}"
            f" ({nats(estimate.value)} of {nats(prediction.uncertainty)} nats)."
        )
        if prediction.label_knowing_domain - prediction.label > GAIN:
            return text + (
                f" Classifiers predict {percent(prediction.label)} of the labels correctly, and"
                f" {percent(prediction.label_knowing_domain)} if they know the domain."
            )
        return text + (
            " Knowing the domain increases the accuracy on these domains by no more than 1 point."
            " A new domain may differ more."
        )

    def of_numbers(share: float) -> str:
        text = (
            f"{start} the label reduces the uncertainty about the domain by {percent(share)}"
            f" ({nats(estimate.value)} nats)."
        )
        r2, known = prediction.r2, prediction.r2_knowing_domain
        if known - r2 > GAIN:
            return text + (
                f" Models explain {percent(max(r2, 0.0))} of the label's variance, and"
                f" {percent(max(known, 0.0))} if they know the domain."
            )
        return text + (
            " Knowing the domain increases R² by no more than 1 point, so the labels differ mainly"
            " in their spread, or for few inputs. A new domain may differ more."
        )

    overlap = ""
    if concept_state(diagnosis, diagnosis.shift) == "overlap":
        of_domain = diagnosis.shift.covariate.value / diagnosis.domain_entropy
        overlap = (
            "Concept shift cannot be measured, because the domains hardly overlap. The inputs"
            f" explain {percent(min(of_domain, 1.0))} of the uncertainty about the domain, so few"
            " inputs of different domains are similar enough to compare their labels."
        )
    found = of_classes if isinstance(prediction, Prediction) else of_numbers
    most = diagnosis.most_concept_shift(diagnosis.shift)
    return finding_on("concept", estimate, most, what, found, overlap=overlap)


def _within_label(diagnosis: Diagnosis) -> Finding:
    def of_classes(share: float) -> str:
        known = [moved for moved in diagnosis.moved_classes if moved.within is not None]
        if not known:
            return "No class occurs in more than one domain."
        first, last = (end(known, key=lambda moved: moved.within or 0.0) for end in (max, min))
        text = (
            f"Inputs of the same class differ between domains, most for {short(first.name)!r},"
            f" where they explain {percent(first.within or 0)} of the uncertainty about the domain"
        )
        if len(known) > 1:
            text += f", and least for {short(last.name)!r} ({percent(last.within or 0)})"
        return f"{text}."

    def of_numbers(share: float) -> str:
        return (
            f"Inputs with the same label differ {size_of(share)} between domains. In addition to"
            f" the label, they explain {percent(share)} of the uncertainty about the domain."
        )

    which, found = "with the same label", of_numbers
    if isinstance(diagnosis.prediction, Prediction):
        which, found = "of the same class", of_classes
    what = f"inputs {which} differ between domains"
    estimate, most = diagnosis.shift.within_label, diagnosis.domain_entropy
    return finding_on("within_label", estimate, most, what, found)
