"""The data classes of a diagnosis: all measurements, without interpretation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.information import Estimate, Shift
from shiftproof.statistics.sample import Floats


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


@dataclass(frozen=True)
class Pair:
    """Two domains, and how far apart they are.

    `told_apart` is the share of their samples that the classifiers assign to the right domain of
    the two (weighted equally; 0.5 is chance), and `told_apart_with_label` the same if they see
    the label too.  `information` is I(X;D) of the pair, at most log 2.  `w1` and `pdm` are mean
    distances of single features, in standard deviations and in their squares.  `labels` is the
    share of labels that would have to change to turn the proportions of one domain into those of
    the other; for numeric labels, it is their distance W1 in standard deviations.
    """

    first: str
    second: str
    told_apart: float
    told_apart_with_label: float
    information: float
    w1: float
    pdm: float
    labels: float


@dataclass(frozen=True)
class MovedFeature:
    """A feature, and its distance W1 in standard deviations, averaged over pairs of domains.

    `farthest` names the two domains between which it moves most, at the distance `most`.  `p_value`
    tests "it moves between no two domains", adjusted for all features and all pairs.
    """

    name: str
    w1: float
    most: float
    farthest: tuple[str, str]
    p_value: float


@dataclass(frozen=True)
class MovedClass:
    """A class: its share in each domain, and how far its inputs shift.

    `information` is I(X;D|Y = this class), and `within` is its share of the maximum.  Both are None
    if the class occurs in only one domain.
    """

    name: str
    shares: tuple[float, ...]
    information: float | None
    within: float | None


@dataclass(frozen=True)
class NumberLabel:
    """The numeric labels of one domain: mean, standard deviation and quartiles."""

    mean: float
    deviation: float
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class Points:
    """A difference in percentage points, with its interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class _AnyLoss:
    held_out: float
    trained_with: float
    lost: Points


@dataclass(frozen=True)
class Loss(_AnyLoss):
    """A metric on one domain in percent, trained without and with it, and the parts of the loss."""

    label_shares: Points
    unseen: Points
    inputs: Points
    meaning: Points


@dataclass(frozen=True)
class NumberLoss(_AnyLoss):
    """A metric on one domain, trained without and with it, and the parts of the loss.

    R² is in percent and its parts in points; MAE and its parts have the label's unit.
    """

    level: Points
    unseen: Points
    inputs: Points
    meaning: Points


@dataclass(frozen=True)
class Drop:
    """The loss of one held-out domain; `unseen_share` of its rows are unlike all training rows.

    `worst_class` is the class that loses the most accuracy, and its loss in points.
    """

    domain: str
    rows: int
    accuracy: Loss
    auroc: Loss | None
    unseen_share: float
    worst_class: tuple[str, float]


@dataclass(frozen=True)
class NumberDrop:
    """The loss of one held-out domain; `unseen_share` of its rows are unlike all training rows.

    `r2` is None for a domain whose labels are all equal.
    """

    domain: str
    rows: int
    r2: NumberLoss | None
    mae: NumberLoss
    unseen_share: float


@dataclass(frozen=True)
class ColumnTrial:
    """The mean gain of held-out domains from changing one column, in points of accuracy or R².

    `change` is `drop`, or `rank`, which replaces values by their rank within each domain.
    """

    column: str
    change: str
    gain: Points

    @property
    def helps(self) -> bool:
        """Whether the interval of the gain is above zero."""
        return self.gain.interval[0] > 0


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
