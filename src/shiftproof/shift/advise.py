"""What to do about the shifts that were found: what to match, and how, or not to match at all.

The rules follow the paper.  Matching gradients addresses concept shift I(Y;D|X), matching
representations addresses covariate shift I(X;D).  Where label proportions differ, equal
representations in all domains would pull classes onto each other; since
I(R,Y;D) = I(Y;D) + I(R;D|Y), the part that can be removed is then matched class by class.  A shift
that is not there needs no matching: matching costs accuracy, as measured on the data named below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shiftproof.shift.diagnose import Diagnosis
from shiftproof.shift.interpretation import Finding, State, findings, model_reading

# With fewer samples in a domain, chance decides which method looks better there.
FEW = 200

COLOURED = (
    "Measured on Colored MNIST, where colours change their meaning: ERM gets 15-17% of the reversed"
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
    " shortcut (on Colored MNIST, 10% with every one of 29 methods). The selection method"
    " invariance of a sweep chooses by what stays the same between training domains (there, 67%)."
)


@dataclass(frozen=True)
class Choice:
    """An algorithm with its hyper-parameters, and why; `shiftproof.train` takes both."""

    algorithm: str
    why: str
    hparams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Advice:
    """What was found in words, what to train, what to compare it with, and further remarks.

    `test_domains` are the domains that the user holds out; without any, hold out each in turn.
    """

    findings: tuple[Finding, ...]
    choice: Choice
    beside: Choice | None
    remarks: tuple[str, ...] = ()
    test_domains: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def advise(diagnosis: Diagnosis, test_domains: tuple[str, ...] = ()) -> Advice:
    """Return the findings of a diagnosis in words, and a recommendation."""
    found = findings(diagnosis)
    states = {finding.shift: finding.state for finding in found}
    if states["label"] == "found" and states["within_label"] != "found":
        rule = _label_alone
    else:
        rule = _concept if states["concept"] == "found" else _no_concept
    choice, beside = rule(states)
    remarks = tuple(_remarks(diagnosis, choice, states))
    return Advice(found, choice, beside, remarks, test_domains)


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
        f"Match {matched}. Gradient matching addresses concept shift, which no fit to the training"
        f" domains removes. {COLOURED} Compare with plain ERM: a small shift may not be worth it."
    )
    return Choice("idm", why, hparams), Choice("erm", "To compare with.")


def _label_alone(states: Mapping[str, State]) -> tuple[Choice, Choice | None]:
    seen = [name for name in ("covariate", "concept") if states[name] == "found"]
    follows = f" What shows as {' and '.join(seen)} shift follows from it." if seen else ""
    why = (
        "Nothing to match: inputs of one class show no difference between domains, only the"
        f" proportions of the classes differ, and no representation changes those.{follows} If the"
        " proportions in a new domain are known, weight the model's probabilities by them."
    )
    return Choice("erm", why), None


def _no_concept(states: Mapping[str, State]) -> tuple[Choice, Choice | None]:
    if states["covariate"] != "found":
        if "untold" in (states["covariate"], states["concept"]):
            why = "No shift was found, but the data cannot tell that there is none: begin with ERM."
        else:
            why = "Nothing to match: the domains look alike."
        return Choice("erm", why), None
    measured = OFFICE if states["label"] == "found" else ROTATED
    doubt = {
        "small": "There is only a hint of concept shift, which gradient matching addresses.",
        "overlap": "Concept shift, which gradient matching addresses, could not be told from it.",
        "untold": "There is no sign of concept shift, which gradient matching addresses, but the"
        " samples are too few to exclude it.",
    }.get(
        states["concept"], "There is no sign of concept shift, which gradient matching addresses."
    )
    why = (
        f"Inputs differ, and a model that fits all domains may well need nothing else. {doubt}"
        f" {measured}"
    )
    gradients = "auto" if states["concept"] == "small" else "0"
    beside = (
        f"Worth a comparison: matching {'gradients and ' * (gradients == 'auto')}representations"
        + {
            "found": " class by class (over all samples it would pull classes onto each other,"
            " since their proportions differ)",
            "none": "",
        }.get(states["label"], " class by class (their proportions may differ)")
        + ", at a strength that does not depend on the scale of the features."
    )
    hparams = {"gradient_weight": gradients, **_representations(states["label"])}
    return Choice("erm", why), Choice("idm", beside, hparams)


def _representations(label: State) -> dict[str, str]:
    """Return how to match representations, given what is known of the label proportions."""
    within = "all" if label == "none" else "class"
    return {"representation_weight": "auto", "match_within": within}


def _remarks(diagnosis: Diagnosis, choice: Choice, states: Mapping[str, State]) -> list[str]:
    remarks = []
    if choice.algorithm == "idm":
        remarks.append(SELECTION)
    if states["concept"] == "overlap" and diagnosis.model is None:
        remarks.append(
            "The classifiers miss less in the representation of a trained run (`run`), or in the"
            " features of a pretrained network (`backbone`, `weights`), than in pixels."
        )
    thin = [
        f"{name} ({size})"
        for name, size in zip(diagnosis.domains, diagnosis.sizes, strict=True)
        if size < FEW
    ]
    if thin:
        remarks.append(
            f"Few samples: {', '.join(thin[:6])}{', …' if len(thin) > 6 else ''}. Chance decides as"
            " much as the method which one looks better there; repeat with several values of"
            " `seed`."
        )
    if diagnosis.model is not None:
        remarks.append(model_reading(diagnosis, diagnosis.model))
    return remarks
