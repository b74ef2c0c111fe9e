"""A fitted ensemble: members, their weights and the temperatures that calibrate them.

    p(y|x) ∝ q(y|x)^(1/T),   q(y|x) = Σ_j w_j · p_j(y|x)^(1/T_j) / Σ_k p_j(k|x)^(1/T_j)

Each member has its own temperature T_j.  The mean of calibrated probabilities is underconfident
(Ranjan and Gneiting, 2010), so the mean has a temperature T too.

For regression, the prediction is the weighted mean Σ_j w_j f_j(x), without temperatures.

A single model is an ensemble with one member.  An ensemble is stored as JSON values and the arrays
of its members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, get_type_hints

import numpy as np

from shiftproof.core.cores import one_thread_each
from shiftproof.core.json_values import conform_fields
from shiftproof.learners.array_model import require, under
from shiftproof.learners.criterion import tempered
from shiftproof.learners.table_models import LinearModel, TreeModel

LINEAR, FOREST, BOOSTING, ESTIMATOR = "linear", "forest", "boosting", "estimator"


class MemberModel(Protocol):
    """A fitted model of raw rows."""

    @property
    def classes(self) -> np.ndarray:
        """The positions [k] of its classes among all classes; empty for numbers."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities [n, k] of its classes, or numbers [n, 1] in standard units."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to store, by name."""


@dataclass(frozen=True)
class Member:
    """One model of an ensemble.

    ``variant`` is the selected setting.  ``risk`` is the mean loss over held-out training domains,
    after calibration, and ``accuracy`` the mean accuracy there, or R² for regression (``r2`` in
    descriptions); both are None if the model was not evaluated.  ``seconds``, the time of
    evaluating and fitting, is not stored, so that equal runs give equal files.
    """

    name: str
    variant: str
    weight: float
    temperature: float
    risk: float | None
    accuracy: float | None
    model: MemberModel
    seconds: float = field(default=0.0, compare=False)


# What is stored of a member beside its arrays.
_DESCRIBED = ("name", "variant", "weight", "temperature", "risk", "accuracy")
_STORED = {
    **{name: kind for name, kind in get_type_hints(Member).items() if name in _DESCRIBED},
    **{"r2": float | None, "kind": str, "estimator": Mapping[str, Any]},
}


@dataclass(frozen=True)
class Ensemble:
    """Members whose weights sum to 1, for ``classes`` classes, or for regression if that is 0.

    ``left_out`` maps candidates that were not tried to the reason.  ``held_out`` [n, k] are
    predictions for the training rows, from models not trained on the row's domain; they are not
    stored with the ensemble.
    """

    members: tuple[Member, ...]
    classes: int
    temperature: float = 1.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    held_out: np.ndarray | None = field(default=None, compare=False, repr=False)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities [n, classes] of raw rows, or numbers [n, 1] in standard units."""
        total = np.zeros((len(x), self.classes or 1))
        with one_thread_each():
            for member in self.members:
                predicted = member.model.predict(x)
                if self.classes == 0:
                    total += member.weight * predicted
                else:
                    weighted = member.weight * tempered(predicted, member.temperature)
                    total[:, member.model.classes] += weighted
        return tempered(total, self.temperature) if self.temperature != 1 else total

    def described(self) -> list[dict[str, Any]]:
        """Return each member's description and weight as JSON values, without model and time."""
        titles = {} if self.classes else {"accuracy": "r2"}
        return [
            {titles.get(name, name): getattr(member, name) for name in _DESCRIBED}
            for member in self.members
        ]

    def timings(self) -> dict[str, float]:
        """Return each member's time in seconds; empty for a loaded model."""
        return {member.name: round(member.seconds, 3) for member in self.members if member.seconds}

    def to_json(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values."""
        members = [
            {**described, **_kind(member.model)}
            for described, member in zip(self.described(), self.members, strict=True)
        ]
        return {"temperature": self.temperature, "members": members}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of all members, by name."""
        return {
            f"{number}.{name}": array
            for number, member in enumerate(self.members)
            for name, array in member.model.arrays().items()
        }

    @classmethod
    def read(
        cls,
        described: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        columns: int,
        classes: int,
        *,
        trust: bool = False,
    ) -> Ensemble:
        """Rebuild an ensemble from `to_json` and `arrays`; raise `ValueError` if it is not valid.

        Args:
            described: what `to_json` returned.
            arrays: what `arrays` returned.
            columns: the number of columns of a raw row.
            classes: the number of classes, or 0 for regression.
            trust: rebuild an estimator of the user's own, which may run code.
        """
        conform_fields(described, {"temperature": float, "members": tuple[Any, ...]}, "ensemble")
        members = []
        numbers = {name.partition(".")[0] for name in arrays}
        require(numbers == set(map(str, range(len(described["members"])))), "members and arrays")
        sizes = {"columns": columns, "classes": classes}
        score = "accuracy" if classes else "r2"
        for number, stored in enumerate(described["members"]):
            where = f"ensemble.members[{number}]"
            conform_fields(stored, _STORED, where, {"accuracy", "r2", "estimator"} - {score})
            kind, parts = stored["kind"], under(f"{number}.", arrays)
            if kind == ESTIMATOR:
                from shiftproof.learners.estimator import EstimatorModel

                model: MemberModel = EstimatorModel.read(
                    parts, sizes, stored=stored.get("estimator"), trust=trust
                )
            elif kind == LINEAR:
                model = LinearModel.from_arrays(parts, sizes)
            else:
                require(kind in (FOREST, BOOSTING), f"{where}.kind is unknown")
                model = TreeModel.from_arrays(parts, sizes, boosted=kind == BOOSTING)
            require((len(model.classes) > 0) == (classes > 0), f"{where} has no classes")
            about = {**stored, "accuracy": stored[score]}
            members.append(Member(**{name: about[name] for name in _DESCRIBED}, model=model))
        temperatures = [described["temperature"], *(member.temperature for member in members)]
        require(all(0.01 <= one <= 100 for one in temperatures), "a temperature is not valid")
        weights = [member.weight for member in members]
        require(min(weights) >= 0 and abs(sum(weights) - 1) < 1e-6, "weights do not sum to 1")
        return cls(tuple(members), classes, float(described["temperature"]))


def _kind(model: Any) -> dict[str, Any]:
    """Return the kind of a model; for a user's estimator also its columns, as JSON values."""
    if isinstance(model, LinearModel):
        return {"kind": LINEAR}
    if isinstance(model, TreeModel):
        return {"kind": BOOSTING if model.boosted else FOREST}
    return {"kind": ESTIMATOR, "estimator": model.to_json()}
