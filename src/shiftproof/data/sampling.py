"""Batches from domains in memory: the batch of a step is a function of the seed and the step.

Counting the steps is therefore all there is to save and restore, and no worker is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from shiftproof.data.base import Domain
from shiftproof.errors import DataError
from shiftproof.types import Batch


class BatchSampler:
    """Draws ``batch_size`` samples with replacement from each domain's *in* part.

    ``batch_size`` 0 takes every sample of every domain at every step (full-batch training), for
    which the parts must be of equal size.
    """

    def __init__(
        self, domains: Sequence[Domain], parts: Sequence[np.ndarray], batch_size: int, seed: int
    ) -> None:
        sizes = [len(part) for part in parts]
        for domain, size in zip(domains, sizes, strict=True):
            if size == 0:
                raise DataError(f"domain {domain.name!r} has no samples left to train on")
        if batch_size == 0 and len(set(sizes)) > 1:
            raise DataError(
                f"full batches need domains of equal size, and these have {sizes} samples;"
                " set batch_size"
            )
        self._domains = domains
        self._parts = parts
        self._batch_size = batch_size
        self._seed = seed
        self._everything = self._gather(parts) if batch_size == 0 else None

    def batch(self, step: int) -> Batch:
        """Return the batch of one step: x [domains, batch, …], y [domains, batch]."""
        if self._everything is not None:
            return self._everything
        # Philox is a function of key and counter: any step's draws, without those before it.
        rng = np.random.Generator(np.random.Philox(key=self._seed, counter=[0, 0, 0, step]))
        return self._gather(
            [part[rng.integers(len(part), size=self._batch_size)] for part in self._parts]
        )

    def _gather(self, chosen: Sequence[np.ndarray]) -> Batch:
        pairs = list(zip(self._domains, map(torch.from_numpy, chosen), strict=True))
        return Batch(
            torch.stack([domain.inputs(index.to(domain.x.device)) for domain, index in pairs]),
            torch.stack([domain.y[index.to(domain.y.device)] for domain, index in pairs]),
        )
