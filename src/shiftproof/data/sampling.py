"""Batch sampling: the batch of a step depends only on the seed and the step.

So only the number of steps must be saved to resume, and any worker can draw any batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.core.types import Batch
from shiftproof.data.domain import Domain, as_numbers


class BatchSampler:
    """Draw `batch_size` samples with replacement from each domain's *in* part.

    With `batch_size` 0, each batch is all samples of all domains (full-batch training), and the
    parts must have equal sizes.  `weights` are scaled to mean 1 within each part, so that a batch
    mean estimates the weighted mean of the part.  `only` gives the positions in each domain's batch
    whose inputs are read; another process reads the others.  Labels and weights always cover the
    whole batch.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        parts: Sequence[np.ndarray],
        batch_size: int,
        seed: int,
        weights: Sequence[np.ndarray] | None = None,
        only: np.ndarray | None = None,
    ) -> None:
        sizes = [len(part) for part in parts]
        for domain, size in zip(domains, sizes, strict=True):
            if size == 0:
                raise DataError(f"domain {domain.name!r} has no samples left to train on")
        if batch_size == 0 and len(set(sizes)) > 1:
            raise DataError(
                f"full batches need domains of equal size, but these have {sizes} samples; set"
                " `batch_size` above 0"
            )
        if batch_size == 0 and any(domain.is_lazy for domain in domains):
            raise DataError("full batches of image files do not fit in memory; set `batch_size`")
        self._domains = domains
        self._parts = parts
        self._batch_size = batch_size
        self._seed = seed
        self._weights = None if weights is None else [weight / weight.mean() for weight in weights]
        self._only = only if only is not None else slice(None)
        self._everything: Batch | None = None
        if batch_size == 0:
            x = torch.stack([d.inputs(part) for d, part in zip(domains, parts, strict=True)])
            everyone = [np.arange(len(part)) for part in parts]
            self._everything = Batch(x, self._labels(parts), self._weight(everyone))

    def stored(self, step: int) -> Batch:
        """Return the batch of one step, with inputs as stored."""
        if self._everything is not None:
            return self._everything
        # Philox depends only on key and counter, so any step can be drawn without earlier ones.
        rng = np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, 0, step]))
        drawn = [rng.integers(len(part), size=self._batch_size) for part in self._parts]
        chosen = [part[rows] for part, rows in zip(self._parts, drawn, strict=True)]
        x = []
        for domain, index in zip(self._domains, chosen, strict=True):
            seeds = rng.integers(2**63, size=len(index))[self._only] if domain.is_lazy else None
            x.append(domain.stored(index[self._only], seeds))
        return Batch(torch.stack(x), self._labels(chosen), self._weight(drawn))

    def batch(self, step: int) -> Batch:
        """Return the batch of one step: float32 x [domains, batch, …] and y [domains, batch]."""
        stored = self.stored(step)
        return stored._replace(x=as_numbers(stored.x))

    def _weight(self, drawn: Sequence[np.ndarray]) -> Tensor | None:
        """Return the weights of the samples at the positions `drawn` in each part."""
        if self._weights is None:
            return None
        parts = [weight[rows] for weight, rows in zip(self._weights, drawn, strict=True)]
        return torch.from_numpy(np.stack(parts))

    def _labels(self, chosen: Sequence[np.ndarray]) -> Tensor:
        pairs = zip(self._domains, chosen, strict=True)
        return torch.stack([domain.labels(index) for domain, index in pairs])
