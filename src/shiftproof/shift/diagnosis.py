"""What a diagnosis holds: everything that was measured, and nothing in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.information import Estimate, Shift
from shiftproof.information.sample import Floats
from shiftproof.shift.drops import ColumnTrial, Drop
from shiftproof.shift.localize import MovedClass, MovedFeature, NumberLabel, Pair
from shiftproof.shift.number_drops import NumberDrop


@dataclass(frozen=True)
class Prediction:
    """How well the classifiers predict, out of sample and with all domains counted alike.

    `label` and `label_knowing_domain` are the shares of labels that they get right,
    `commonest_label` what always naming one class would, `domain` the share of domains;
    `uncertainty` is the cross-entropy of the label given the input, no less than H(Y|X).
    """

    label: float
    label_knowing_domain: float
    commonest_label: float
    domain: float
    uncertainty: float


@dataclass(frozen=True)
class NumberPrediction:
    """How well models predict numbers, out of sample and with all domains counted alike.

    `r2` is that of the inputs, `r2_knowing_domain` that of inputs and domain, and `domain` the
    share of domains that classifiers get right.
    """

    r2: float
    r2_knowing_domain: float
    domain: float


@dataclass(frozen=True, eq=False)
class ModelView:
    """What a trained model makes of samples: R [n, k], its risks [n], and where it is right [n].

    A number is not right or wrong: `right` is None.
    """

    name: str
    representations: Floats
    risks: Floats
    right: NDArray[np.bool_] | None

    def take(self, rows: np.ndarray) -> ModelView:
        """Return the view of some of the samples."""
        right = None if self.right is None else self.right[rows]
        return ModelView(self.name, self.representations[rows], self.risks[rows], right)


@dataclass(frozen=True)
class ModelShift:
    """The amounts with a model's R in the place of X, I(L;D), and how it does on each domain.

    There are no `accuracies` of numbers.
    """

    name: str
    shift: Shift
    risk_shift: Estimate
    risks: tuple[float, ...]
    accuracies: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What shifts.

    `counts` [domains][classes] are the samples measured; `left_out` more were not, being too
    many.  `drops` are the points that held-out domains lose, `trials` what they gain without a
    column.  `features` begin with the one that moves most; pairs and classes keep their order.
    Labels that are numbers have no classes; `numbers` describes those of each domain.
    """

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int
    level: float
    shift: Shift
    domain_entropy: float
    prediction: Prediction | NumberPrediction
    pairs: tuple[Pair, ...]
    features: tuple[MovedFeature, ...]
    moved_classes: tuple[MovedClass, ...]
    drops: tuple[Drop, ...] | tuple[NumberDrop, ...] = ()
    trials: tuple[ColumnTrial, ...] = ()
    model: ModelShift | None = None
    numbers: tuple[NumberLabel, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many samples of each domain were measured."""
        return tuple(map(sum, self.counts))

    def most_concept_shift(self, shift: Shift) -> float:
        """Return how much concept shift there could be, given I(X;D) (or I(R;D)).

        I(Y;D|X) is at most H(Y|X), and at most H(D|X).  A number has no entropy to compare with, so
        there it is the second.
        """
        if isinstance(self.prediction, Prediction):
            return self.prediction.uncertainty
        return max(self.domain_entropy - shift.covariate.value, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)
