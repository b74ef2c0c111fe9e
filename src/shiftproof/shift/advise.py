"""Recommend what to do about the shifts found: the model to start with, and what else helps.

The model to start with is the default of `train`.  IDM is recommended in addition only if concept
shift is found: matching gradients addresses I(Y;D|X), which no fit to the training domains removes.
Representations are matched too if inputs differ; class by class unless the label proportions agree,
since equal representations in all domains would otherwise pull classes together:
I(R,Y;D) = I(Y;D) + I(R;D|Y), and only the last term can be removed.

Everything else follows from measurements on this dataset: each correction, column or warning is
listed with the points that it gains or costs here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from shiftproof.core.text import listed, quoted
from shiftproof.shift.diagnosis import Diagnosis, Drop, NumberDrop, Points
from shiftproof.shift.interpretation import describe_model, explained, findings, kinds_of
from shiftproof.shift.judging import Finding, State, percent

Kind = Literal["table", "embeddings", "images"]

# With fewer samples the standard error of an accuracy can exceed 3.5 points.
FEW = 200
# A held-out domain gets a remark if at least this share of its rows is unlike all others.
MANY_UNSEEN = 0.25


@dataclass(frozen=True)
class Choice:
    """A recommended algorithm with hyper-parameters for `shiftproof.train`, and the reason."""

    algorithm: str
    why: str
    hparams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What the advice depends on besides the diagnosis.

    `codes` are integer columns that may be codes, `uneven` are columns that some domains lack.
    """

    kind: Kind = "table"
    codes: tuple[str, ...] = ()
    uneven: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The findings in words, the model to train, the one to compare it with, and further remarks.

    `kinds` are the kinds of shift found.  `test_domains` are the domains that the user holds out;
    if empty, each is held out in turn.
    """

    findings: tuple[Finding, ...]
    choice: Choice
    beside: Choice | None
    remarks: tuple[str, ...] = ()
    test_domains: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def advise(
    diagnosis: Diagnosis, test_domains: tuple[str, ...] = (), about: About | None = None
) -> Advice:
    """Return the findings of a diagnosis in words, and a recommendation."""
    about = about or About()
    all_findings = findings(diagnosis)
    kinds = kinds_of(all_findings)
    by_shift = {finding.shift: finding for finding in all_findings}
    beside = None
    if "concept" in kinds:
        beside = _matching(by_shift["concept"], numbers=bool(diagnosis.numbers))
    remarks = tuple(_remarks(diagnosis, about, kinds, by_shift["concept"].state))
    return Advice(all_findings, _first(about.kind, kinds), beside, remarks, test_domains, kinds)


def _first(kind: Kind, kinds: tuple[str, ...]) -> Choice:
    if kind == "images":
        why = (
            "The default for images. It trains like ERM, and matches domains only if its test finds"
            " concept shift during training."
        )
        return Choice("idm-auto", why)
    what = "embeddings" if kind == "embeddings" else "tables"
    why = (
        f"The default for {what}: linear models, boosted trees and forests,"
        " weighted by how well they predict training domains that they were not trained on."
    )
    if not kinds:
        why += " No shift was found that is large enough to matter."
    return Choice("best", why)


def _matching(concept: Finding, *, numbers: bool) -> Choice:
    why = (
        "It matches gradients, because concept shift was found:"
        f" {explained(concept, numbers=numbers)}. Fitting all domains together does not remove this"
        " shift. Keep it only if held-out domains improve."
    )
    return Choice("idm" if numbers else "idm-auto", why)


def _remarks(
    diagnosis: Diagnosis, about: About, kinds: tuple[str, ...], concept: State
) -> Iterator[str]:
    metric = "R²" if diagnosis.numbers else "accuracy"
    if diagnosis.numbers:
        yield from _level(diagnosis)
    elif "label" in kinds:
        yield _label_correction(diagnosis)
    for trial in diagnosis.trials:
        if trial.helps:
            what = {
                "drop": f"Leave out {quoted(trial.column)} (`drop`)",
                "rank": f"Replace {quoted(trial.column)} by its rank within each domain",
            }[trial.change]
            gain = f"{points(trial.gain)} points of {metric}"
            yield f"{what}: held-out domains gain {gain} on average."
    if about.kind == "images":
        yield (
            'Average the weights over many steps (`average="swad"`). It needs only one run, and the'
            " results in new domains vary less."
        )
    if "concept" in kinds:
        yield (
            "Compare models on domains that they were not trained on (the selection"
            f" `leave-one-domain-out` of a sweep). The {metric} on training domains can favour"
            " models that rely on relations that do not hold in other domains."
        )
    counts = np.zeros((1, 0)) if diagnosis.numbers else np.array(diagnosis.counts)
    alone = [diagnosis.classes[c] for c in np.flatnonzero((counts > 0).sum(axis=0) == 1)]
    if alone:
        yield (
            f"Classes that occur in only one domain: {listed(alone)}. A model may recognise the"
            " domain instead of the class. Collect such samples in other domains, or leave the"
            " class out."
        )
    if about.uneven:
        yield (
            "Columns that are missing more often in some domains than in others:"
            f" {listed(list(about.uneven))}. The imputed values reveal the domain. Compare with a"
            " model without these columns (`drop`)."
        )
    if about.codes:
        yield (
            f"Integer columns that may be category codes: {listed(list(about.codes))}. If their"
            " order has no meaning, treat them as categories (`categorical`)."
        )
    yield from _unseen(diagnosis)
    yield from _few(diagnosis)
    if concept == "overlap" and about.kind != "table":
        yield (
            "Domains overlap more in the features of a pretrained network (`backbone`, `weights`),"
            " or in the representation of a trained run (`run`), than in pixels."
        )
    if diagnosis.model is not None:
        yield describe_model(diagnosis, diagnosis.model)


def _label_correction(diagnosis: Diagnosis) -> str:
    text = (
        "Label proportions differ. If those of a new domain are known, multiply the probability of"
        " each class by its proportion there divided by that in training, and normalise."
    )
    drops = (drop for drop in diagnosis.drops if isinstance(drop, Drop))
    if best := _largest({drop.domain: drop.accuracy.label_shares for drop in drops}):
        text += f" If {best[0]} is held out, this gains {points(best[1])} points of accuracy there."
    return text


def _level(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield a remark on the gain from knowing a domain's mean label, if there is a gain."""
    drops = (drop for drop in diagnosis.drops if isinstance(drop, NumberDrop))
    if best := _largest({drop.domain: drop.r2.level for drop in drops if drop.r2}):
        yield (
            "If the mean label of a new domain is known, add a constant to all predictions there,"
            f" so that their mean equals it. If {best[0]} is held out, this gains"
            f" {points(best[1])} points of R² there."
        )


def _unseen(diagnosis: Diagnosis) -> Iterator[str]:
    shares = {drop.domain: drop.unseen_share for drop in diagnosis.drops}
    losses = (
        (drop.domain, drop.r2 if isinstance(drop, NumberDrop) else drop.accuracy)
        for drop in diagnosis.drops
        if drop.unseen_share >= MANY_UNSEEN
    )
    if worst := _largest({domain: loss.unseen for domain, loss in losses if loss}):
        domain, cost = worst
        metric = "R²" if diagnosis.numbers else "accuracy"
        yield (
            f"{domain}: {percent(shares[domain])} of its inputs hardly occur in other"
            f" domains. This costs {points(cost)} points of {metric} if it is held out. Only"
            " training data from similar domains can avoid this loss."
        )


def _largest(of_domains: Mapping[str, Points]) -> tuple[str, Points] | None:
    """Return the domain with the largest points of those whose interval is above zero."""
    above = [(domain, part) for domain, part in of_domains.items() if part.interval[0] > 0]
    return max(above, key=lambda pair: pair[1].value, default=None)


def _few(diagnosis: Diagnosis) -> Iterator[str]:
    thin = [
        f"{name} ({size})"
        for name, size in zip(diagnosis.domains, diagnosis.sizes, strict=True)
        if size < FEW
    ]
    if thin:
        error = 50 / np.sqrt(min(diagnosis.sizes))
        errors = f"The standard error of an accuracy there is up to {error:.1f} points."
        if diagnosis.numbers:
            errors = "R² and errors there have wide intervals."
        yield (
            f"Few samples: {', '.join(thin[:6])}{', …' if len(thin) > 6 else ''}. {errors} Compare"
            " methods over several values of `seed`."
        )


def points(part: Points) -> str:
    """Return a difference in points with its interval.

    >>> points(Points(3.14, (1.02, 5.26)))
    '3.1 (1.0 to 5.3)'
    """
    low, high = part.interval
    return f"{part.value:.1f} ({low:.1f} to {high:.1f})"
