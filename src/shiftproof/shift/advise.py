"""What to do about the shifts that were found: the model to begin with, and what else helps.

The model to begin with is what `train` takes by default.  IDM is recommended beside it only where
concept shift is found: matching gradients addresses I(Y;D|X), which no fit to the training domains
removes.  Representations are matched too where inputs differ; class by class unless the label
proportions agree, since equal representations in all domains would then pull classes together:
I(R,Y;D) = I(Y;D) + I(R;D|Y), and only the last term can be removed.

Everything else follows from what was measured on these data: a correction, a column or a warning
is named with the points that it is worth here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from shiftproof.core.text import listed, quoted
from shiftproof.shift.diagnose import Diagnosis
from shiftproof.shift.drops import Points
from shiftproof.shift.interpretation import (
    Finding,
    State,
    findings,
    kinds_of,
    model_reading,
    percent,
)

Kind = Literal["table", "embeddings", "images"]

# With fewer samples the standard error of an accuracy can exceed 3.5 points.
FEW = 200
# Held-out rows of which this share is unlike all others are worth a remark.
MANY_UNSEEN = 0.25


@dataclass(frozen=True)
class Choice:
    """An algorithm with its hyper-parameters, and why; `shiftproof.train` takes both."""

    algorithm: str
    why: str
    hparams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class About:
    """What the advice depends on beside the diagnosis.

    `codes` are columns of whole numbers that may be codes, `uneven` columns that some domains lack.
    """

    kind: Kind = "table"
    codes: tuple[str, ...] = ()
    uneven: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """What was found in words, what to train, what to compare it with, and further remarks.

    `kinds` are the kinds of shift found.  `test_domains` are the domains that the user holds out;
    without any, hold out each in turn.
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
    found = findings(diagnosis)
    kinds = kinds_of(found)
    states = {finding.shift: finding.state for finding in found}
    beside = _matching(states, found) if "concept" in kinds else None
    remarks = tuple(_remarks(diagnosis, about, kinds, states))
    return Advice(found, _first(about.kind, kinds), beside, remarks, test_domains, kinds)


def _first(kind: Kind, kinds: tuple[str, ...]) -> Choice:
    if kind == "images":
        why = (
            "The default for images: it trains as ERM, and matches domains only if its own test"
            " finds concept shift while it trains."
        )
        return Choice("idm-auto", why)
    what = "embeddings" if kind == "embeddings" else "tables"
    why = (
        f"The default for {what}: linear models, boosted trees, forests and small networks,"
        " weighted by how well they predict training domains that they were not trained on."
    )
    if not kinds:
        why += " No shift worth minding was found."
    return Choice("best", why)


def _matching(states: Mapping[str, State], found: tuple[Finding, ...]) -> Choice:
    share = next(each.share for each in found if each.shift == "concept")
    hparams = {"gradient_weight": "auto", "representation_weight": "0"}
    matched = "gradients"
    if states["covariate"] == "found":
        within = "all" if states["label"] == "none" else "class"
        hparams |= {"representation_weight": "auto", "match_within": within}
        matched += ", and representations" + " class by class" * (within == "class")
    why = (
        f"Match {matched}: the same input means another label in another domain"
        f" ({percent(share)} of the label's remaining uncertainty), which no fit to all domains"
        " removes. Keep it only if held-out domains gain."
    )
    return Choice("idm", why, hparams)


def _remarks(
    diagnosis: Diagnosis, about: About, kinds: tuple[str, ...], states: Mapping[str, State]
) -> Iterator[str]:
    if "label" in kinds:
        yield _label_correction(diagnosis)
    for trial in diagnosis.trials:
        if trial.helps:
            what = {
                "drop": f"Leave out {quoted(trial.column)} (`drop`)",
                "rank": f"Replace {quoted(trial.column)} by its rank within each domain",
            }[trial.change]
            yield f"{what}: held-out domains gain {points(trial.gain)} points of accuracy."
    if about.kind == "images":
        yield (
            'Average the weights of the last steps (`average="swad"`): one run, and steadier in'
            " domains that were not trained on."
        )
    if "concept" in kinds:
        yield (
            "Choose between models by domains that they were not trained on (the selection"
            " `leave-one-domain-out` of a sweep): accuracy on training domains can reward what does"
            " not carry over."
        )
    counts = np.array(diagnosis.counts)
    alone = [diagnosis.classes[c] for c in np.flatnonzero((counts > 0).sum(axis=0) == 1)]
    if alone:
        yield (
            f"In one domain only: {listed(alone)}. A model can take the domain's style for the"
            " class; collect it elsewhere, or leave it out."
        )
    if about.uneven:
        yield (
            f"Missing more often in some domains than in others: {listed(list(about.uneven))}. The"
            " value in their place tells the domain; compare with leaving them out (`drop`)."
        )
    if about.codes:
        yield (
            f"Whole numbers that may be codes: {listed(list(about.codes))}. If their order means"
            " nothing, name them as `categorical`."
        )
    yield from _unseen(diagnosis)
    yield from _few(diagnosis)
    if states["concept"] == "overlap" and about.kind != "table":
        yield (
            "Domains overlap more in the features of a pretrained network (`backbone`, `weights`),"
            " or in the representation of a trained run (`run`), than in pixels."
        )
    if diagnosis.model is not None:
        yield model_reading(diagnosis, diagnosis.model)


def _label_correction(diagnosis: Diagnosis) -> str:
    text = (
        "Label proportions differ: if those of a new domain are known, multiply each class's"
        " probability by its new proportion over that in training."
    )
    gains = [d for d in diagnosis.drops if d.accuracy.label_shares.interval[0] > 0]
    if gains:
        best = max(gains, key=lambda d: d.accuracy.label_shares.value)
        gain = points(best.accuracy.label_shares)
        text += f" In {best.domain}, held out, that regains {gain} points of accuracy."
    return text


def _unseen(diagnosis: Diagnosis) -> Iterator[str]:
    unseen = [
        d
        for d in diagnosis.drops
        if d.unseen_share >= MANY_UNSEEN and d.accuracy.unseen.interval[0] > 0
    ]
    if unseen:
        worst = max(unseen, key=lambda d: d.accuracy.unseen.value)
        yield (
            f"{worst.domain}: {percent(worst.unseen_share)} of its inputs are unlike those of all"
            f" other domains, which costs {points(worst.accuracy.unseen)} points if it is held out."
            " No method replaces data from domains like it."
        )


def _few(diagnosis: Diagnosis) -> Iterator[str]:
    thin = [
        f"{name} ({size})"
        for name, size in zip(diagnosis.domains, diagnosis.sizes, strict=True)
        if size < FEW
    ]
    if thin:
        error = 50 / np.sqrt(min(diagnosis.sizes))
        yield (
            f"Few samples: {', '.join(thin[:6])}{', …' if len(thin) > 6 else ''}. An accuracy there"
            f" has a standard error of up to {error:.1f} points: repeat with several values of"
            " `seed` before preferring a method."
        )


def points(each: Points) -> str:
    """Return a difference in points with its interval.

    >>> points(Points(3.14, (1.02, 5.26)))
    '3.1 (1.0 to 5.3)'
    """
    low, high = each.interval
    return f"{each.value:.1f} ({low:.1f} to {high:.1f})"
