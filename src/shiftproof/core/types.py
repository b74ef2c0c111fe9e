"""Two types that all layers share: a batch from several domains, and the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from shiftproof.core.space import Regime


class Batch(NamedTuple):
    """One minibatch from each training domain, stacked.

    `x` has shape [domains, batch, …] and `y` [domains, batch]: all domains have the same batch
    size.
    """

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Task:
    """What a model must solve: all that an algorithm knows about the data.

    `input_shape` is the shape of one sample, `num_domains` the number of training domains, and
    `regime` selects the defaults (see `core.space`).
    """

    input_shape: tuple[int, ...]
    num_classes: int
    num_domains: int
    regime: Regime
