"""Samples for a trained model: inputs in its input form, with optional labels and domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.data.images.files import ImageFiles
from shiftproof.data.input_forms import Inputs, ReadyInputs, as_ready

# The domain name of samples whose domain is unknown.
ALL = "all"


@dataclass(frozen=True)
class Samples:
    """Inputs in the order they were found, with their labels and domains if known.

    `names` are columns that identify the samples (a row number, a path).  `labels` and `domains`
    hold one string per sample; a missing label is None.
    """

    inputs: Inputs
    names: Mapping[str, Sequence[Any]]
    labels: Sequence[str | None] | None = None
    domains: Sequence[str] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, index: np.ndarray) -> Samples:
        """Return the samples at `index`."""
        return replace(
            self,
            inputs=_taken(self.inputs, index),
            names={name: [column[i] for i in index] for name, column in self.names.items()},
            labels=None if self.labels is None else [self.labels[i] for i in index],
            domains=None if self.domains is None else [self.domains[i] for i in index],
        )

    def by_domain(self) -> dict[str, Samples]:
        """Return the samples of each domain, sorted by domain name."""
        if self.domains is None:
            return {ALL: self}
        domains = np.array(self.domains, dtype=object)
        return {name: self.take(np.flatnonzero(domains == name)) for name in sorted(set(domains))}


def _taken(inputs: Inputs, index: np.ndarray) -> Inputs:
    if isinstance(inputs, ReadyInputs):
        return as_ready(inputs[index])
    if isinstance(inputs, ImageFiles):
        return ImageFiles([inputs.records[i] for i in index], inputs.view)
    raise DataError(f"samples cannot be taken from {type(inputs).__name__}")
