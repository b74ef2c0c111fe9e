"""Features of a frozen network as a dataset; `training.features` computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shiftproof.data import DomainDataset
from shiftproof.data.input_forms import InputForm

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class FrozenFeatures(DomainDataset):
    """Features as a dataset, with the input form and the network that computed them.

    `parts` holds the features of each network, if there are several.
    """

    source: InputForm = field(kw_only=True)
    network: Callable[[], nn.Module] = field(kw_only=True, compare=False, repr=False)
    parts: tuple[FrozenFeatures, ...] = field(default=(), kw_only=True, repr=False)
