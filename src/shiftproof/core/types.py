"""What all layers share: a batch from several domains, the task, and rules for class weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from shiftproof.core.errors import InvalidValue
from shiftproof.core.json_values import from_stored, stored_fields

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

# A tensor, or a NumPy array.
Numbers = TypeVar("Numbers", "Tensor", "np.ndarray")

# The kind of input, which determines the defaults of hyper-parameters (`core.space`).
Regime = Literal["small-image", "large-image", "huge-image", "table", "features"]
# The kind of task: predict one of several classes, or a number.
Kind = Literal["classification", "regression"]
CLASSIFICATION: Kind = "classification"
REGRESSION: Kind = "regression"
# The classification loss; all others are regression losses (`models.risk`).
CROSS_ENTROPY = "cross_entropy"
SQUARED = "squared"


class Batch(NamedTuple):
    """One minibatch from each training domain, stacked.

    `x` has shape [domains, batch, …] and `y` [domains, batch]: all domains have the same batch
    size.  `y` holds integer classes, or numbers in standard units (see `Task`).  `weight`
    [domains, batch] holds sample weights, if any, with mean 1 over the samples of each domain.
    """

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def weighted(self, losses: Tensor) -> Tensor:
        """Return losses times sample weights, so that their mean is the weighted mean loss."""
        return losses if self.weight is None else losses * self.weight.to(losses.dtype)

    def of_domain(self, domain: int) -> Batch:
        """Return the part of one domain: x [batch, …], y [batch]."""
        weight = None if self.weight is None else self.weight[domain]
        return Batch(self.x[domain], self.y[domain], weight)

    def by_domain(self) -> Iterator[Batch]:
        """Yield the part of each domain."""
        return (self.of_domain(domain) for domain in range(len(self.y)))

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Task:
    """The task of a model: everything that an algorithm knows about the data.

    `input_shape` is the shape of one sample, `num_domains` the number of training domains, and
    `regime` selects the defaults (see `core.space`).  `loss` names the loss of a sample
    (`models.risk`) and thereby the kind of task: cross-entropy for `num_classes` classes, any other
    loss for regression, where `num_classes` is 0.

    A number y is learned in standard units, z = (y − `center`) / `scale`, with the mean and the
    standard deviation of the training domains, weighted equally.  Outputs and the labels of a batch
    are in these units; `in_units` converts outputs to the units of the labels.  `center` and
    `scale` are tuples of one number, as stored.
    """

    input_shape: tuple[int, ...]
    num_classes: int
    num_domains: int
    regime: Regime
    loss: str = CROSS_ENTROPY
    center: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if (self.num_classes > 0) != (self.loss == CROSS_ENTROPY):
            raise InvalidValue(
                f"`loss` must be {CROSS_ENTROPY} for a task with classes and a regression loss for"
                f" one without, not {self.loss} with {self.num_classes} classes"
            )
        if not len(self.center) == len(self.scale) == 1:
            raise InvalidValue("`center` and `scale` must each have one entry")

    @property
    def kind(self) -> Kind:
        """Classification or regression."""
        return CLASSIFICATION if self.loss == CROSS_ENTROPY else REGRESSION

    @property
    def num_outputs(self) -> int:
        """The number of network outputs: one per class, or one number."""
        return self.num_classes or 1

    def in_units(self, outputs: Numbers) -> Numbers:
        """Convert outputs [n, 1] to predictions [n] in the units of the labels."""
        center, scale = self._units(outputs)
        values: Numbers = (center + scale * outputs).squeeze(-1)
        return values

    def in_standard_units(self, labels: Numbers) -> Numbers:
        """Return labels [n] in standard units."""
        center, scale = self._units(labels)
        units: Numbers = (labels - center) / scale
        return units

    def _units(self, like: Any) -> tuple[Any, Any]:
        """Return center and scale as tensors or arrays, of the same type as `like`."""
        import numpy as np

        if isinstance(like, np.ndarray):
            return np.array(self.center, dtype=like.dtype), np.array(self.scale, dtype=like.dtype)
        return like.new_tensor(self.center), like.new_tensor(self.scale)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not at their defaults, as JSON values."""
        return stored_fields(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Task:
        """Rebuild what `to_json` returned; raise `ValueError` for other values."""
        return from_stored(cls, value, "task")


# The rules for class weights; `training.sample_weights` computes the weights.
UNWEIGHTED, BALANCED = "none", "balanced"
CLASS_WEIGHTS = (UNWEIGHTED, BALANCED)
