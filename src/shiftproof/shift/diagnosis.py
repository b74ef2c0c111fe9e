"""The data classes of a diagnosis: all measurements, without interpretation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.information import Estimate, Shift
from shiftproof.information.sample import Floats
from shiftproof.shift.drops import ColumnTrial, Drop, NumberDrop
from shiftproof.shift.localize import MovedClass, MovedFeature, NumberLabel, Pair


@dataclass(frozen=True)
class Prediction:
    """How well the classifiers predict, out of sample and with all domains weighted equally.

    `label` and `label_knowing_domain` are accuracies on the label, `commonest_label` is the
    accuracy of always predicting the most frequent class, and `domain` the accuracy on the domain.
    `uncertainty` is the cross-entropy of the label given the input, no less than H(Y|X).
    """

    label: float
    label_knowing_domain: float
    commonest_label: float
    domain: float
    uncertainty: float


@dataclass(frozen=True)
class NumberPrediction:
    """How well models predict numbers, out of sample and with all domains weighted equally.

    `r2` is the R² of predictions from the inputs, `r2_knowing_domain` from inputs and domain, and
    `domain` is the accuracy of the classifiers on the domain.
    """

    r2: float
    r2_knowing_domain: float
    domain: float


@dataclass(frozen=True, eq=False)
class ModelView:
    """A trained model's representations R [n, k] of samples, risks [n] and correctness [n].

    `right` is None for numeric labels, which are not right or wrong.
    """

    name: str
    representations: Floats
    risks: Floats
    right: NDArray[np.bool_] | None

    def take(self, rows: np.ndarray) -> ModelView:
        """Return the view restricted to the given rows."""
        right = None if self.right is None else self.right[rows]
        return ModelView(self.name, self.representations[rows], self.risks[rows], right)


@dataclass(frozen=True)
class ModelShift:
    """The amounts with a model's R in place of X, I(L;D), and its performance on each domain.

    `accuracies` is empty for numeric labels.
    """

    name: str
    shift: Shift
    risk_shift: Estimate
    risks: tuple[float, ...]
    accuracies: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis:
    """The result of a diagnosis.

    `counts` [domains][classes] are the numbers of samples measured; `left_out` is the number of
    samples beyond the limit.  `drops` are the points that held-out domains lose, `trials` what they
    gain by changing a column.  `features` are sorted by how far they move; pairs and classes keep
    their order.  Numeric labels have no classes; `numbers` describes the labels of each domain.
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
        """The number of samples measured in each domain."""
        return tuple(map(sum, self.counts))

    def most_concept_shift(self, shift: Shift) -> float:
        """Return the largest possible concept shift, given I(X;D) (or I(R;D)).

        I(Y;D|X) is at most H(Y|X), and at most H(D|X).  Numeric labels have no entropy to compare
        with, so their bound is H(D|X).
        """
        if isinstance(self.prediction, Prediction):
            return self.prediction.uncertainty
        return max(self.domain_entropy - shift.covariate.value, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)
