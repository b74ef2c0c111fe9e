"""What to do about the shifts that were found: match what, how strongly, or nothing at all.

The rules follow the paper.  Matching gradients answers concept shift I(Y;D|X), matching
representations answers covariate shift I(X;D).  Where label proportions differ, equal
representations in all domains would mean classes pulled onto each other; since
I(R,Y;D) = I(Y;D) + I(R;D|Y), the part that can be removed is then matched class by class.  And what
is not there needs no matching: it costs accuracy, as measured on the data named below.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from shiftproof.shift.diagnose import Diagnosis
from shiftproof.shift.interpretation import Finding, State, findings, model_reading

# Fewer samples in a domain do not settle which method is better there.
FEW = 200

COLOURED = (
    "Measured on Colored MNIST, whose colours turn their meaning: ERM gets 15-17% of the turned"
    " domain right, gradient matching 67-69% (five seeds)."
)
ROTATED = (
    "Measured on Rotated MNIST, which has this shift alone: ERM is within two points of the best of"
    " 29 methods; IDM at its published strengths is 3.7 points below ERM, and idm-auto 0.8 above."
)
OFFICE = (
    "Measured on Office-Caltech10, which has both: ERM is within a point of the best of 29 methods,"
    " IDM at its published strengths 0.6 to 1.9 points below ERM, and idm-auto the same as ERM."
)
SELECTION = (
    "Do not choose between such models by their accuracy on the training domains: it prefers the"
    " shortcut (on Colored MNIST, 10% with every one of 29 methods). `shiftproof sweep --selection"
    " invariance` chooses by what stays the same between training domains (there, 67%)."
)


@dataclass(frozen=True)
class Choice:
    """An algorithm with its settings, and why."""

    algorithm: str
    why: str
    hparams: Mapping[str, str] = field(default_factory=dict)

    def command(self, data: Sequence[str] = ("DATA",), held_out: Sequence[str] = ("each",)) -> str:
        """Return the command that trains it; ``data`` are the arguments that name the data."""
        options = ["--algorithm", self.algorithm]
        for name, value in self.hparams.items():
            options += ["--hparam", f"{name}={value}"]
        for domain in held_out:
            options += ["--test-domain", domain]
        return shlex.join(["shiftproof", "train", *data, *options])


@dataclass(frozen=True)
class Advice:
    """What was found in words, what to do, what to compare it with, and what else to know."""

    findings: tuple[Finding, ...]
    choice: Choice
    beside: Choice | None
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def advise(diagnosis: Diagnosis) -> Advice:
    """Read a diagnosis, and recommend."""
    found = findings(diagnosis)
    states = {finding.shift: finding.state for finding in found}
    if states["label"] == "found" and states["within_label"] != "found":
        rule = _label_alone
    else:
        rule = _concept if states["concept"] == "found" else _no_concept
    choice, beside = rule(states)
    return Advice(found, choice, beside, tuple(_remarks(diagnosis, choice, states)))


def _concept(states: Mapping[str, State]) -> tuple[Choice, Choice | None]:
    if states["covariate"] == "found":
        hparams = {"gradient_weight": "auto", **_representations(states["label"])}
        matched = "gradients, and representations " + {
            "found": "class by class, since label proportions differ",
            "none": "of all samples",
        }.get(states["label"], "as `auto` decides")
    else:
        hparams = {"gradient_weight": "auto", "representation_weight": "0"}
        matched = "gradients, not representations, for the inputs do not differ"
    why = (
        f"Match {matched}. Gradients answer concept shift, which no fit to the training domains"
        f" removes. {COLOURED} Compare with plain ERM: a small shift may not be worth it."
    )
    return Choice("idm", why, hparams), Choice("erm", "To compare with.")


def _label_alone(states: Mapping[str, State]) -> tuple[Choice, Choice | None]:
    seen = [name for name in ("covariate", "concept") if states[name] == "found"]
    follows = f" What shows as {' and '.join(seen)} shift follows from it." if seen else ""
    why = (
        "Nothing to match: inputs of one class show no difference between domains, only the"
        f" proportions of the classes differ, and no representation changes those.{follows} If a"
        " new domain's proportions are known, weigh the model's probabilities by them."
    )
    return Choice("erm", why), None


def _no_concept(states: Mapping[str, State]) -> tuple[Choice, Choice | None]:
    if states["covariate"] != "found":
        if "untold" in (states["covariate"], states["concept"]):
            why = "No shift was found, and the data cannot tell that there is none: begin plainly."
        else:
            why = "Nothing to match: the domains look alike."
        return Choice("erm", why), None
    measured = OFFICE if states["label"] == "found" else ROTATED
    doubt = {
        "hint": "Of concept shift, which gradient matching answers, there is but a hint.",
        "unclear": "Concept shift, which gradient matching answers, could not be told from it.",
        "untold": "Of concept shift, which gradient matching answers, there is no sign, though the"
        " samples are too few to exclude it.",
    }.get(states["concept"], "There is no sign of concept shift, which gradient matching answers.")
    why = (
        f"Inputs differ, and a model that fits all domains may well need nothing else. {doubt}"
        f" {measured}"
    )
    gradients = "auto" if states["concept"] == "hint" else "0"
    beside = (
        f"Worth a comparison: matching {'gradients and ' * (gradients == 'auto')}representations"
        + {
            "found": " class by class (over all samples it would pull classes onto each other,"
            " since their proportions differ)",
            "none": "",
        }.get(states["label"], ", in the way that `auto` decides")
        + ", at a strength that does not depend on the scale of the features."
    )
    hparams = {"gradient_weight": gradients, **_representations(states["label"])}
    return Choice("erm", why), Choice("idm", beside, hparams)


def _representations(label: State) -> dict[str, str]:
    """Return how to match representations, given what is known of the label proportions."""
    within = {"found": "class", "none": "all"}.get(label, "auto")
    return {"representation_weight": "auto", "match_within": within}


def _remarks(diagnosis: Diagnosis, choice: Choice, states: Mapping[str, State]) -> list[str]:
    remarks = []
    if choice.algorithm == "idm":
        remarks.append(SELECTION)
    if states["concept"] == "unclear" and diagnosis.model is None:
        remarks.append(
            "The representation of a trained run (--run), or features of a pretrained network"
            " (--backbone, --weights), leave less to be missed than pixels do."
        )
    thin = [
        f"{name} ({size})"
        for name, size in zip(diagnosis.domains, diagnosis.sizes, strict=True)
        if size < FEW
    ]
    if thin:
        remarks.append(
            f"Few samples: {', '.join(thin[:6])}{', …' if len(thin) > 6 else ''}. Which method is"
            " better there, chance decides as much as the method; repeat with several --seed."
        )
    if diagnosis.model is not None:
        remarks.append(model_reading(diagnosis, diagnosis.model))
    return remarks
