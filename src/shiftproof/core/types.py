"""The two values that every layer passes on: a batch from several domains, and the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from shiftproof.core.space import Regime


class Batch(NamedTuple):
    """One minibatch from each training domain, stacked.

    `x` has shape [domains, batch, …] and `y` [domains, batch]: domains of equal batch size
    are the only thing that fits in.
    """

    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Task:
    """What a model must solve, and all an algorithm may know of the data.

    `input_shape` is that of one sample, `num_domains` counts the training domains, and
    `regime` says which defaults fit (see `core.space`).
    """

    input_shape: tuple[int, ...]
    num_classes: int
    num_domains: int
    regime: Regime
