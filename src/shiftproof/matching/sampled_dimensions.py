"""A random sample of dimensions: an unbiased estimate of PDM for very large gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof.core.tensors import LateBuffers


class SampledDimensions(LateBuffers):
    """`count` of P dimensions, drawn without replacement.

    PDM is a mean over dimensions, so the mean over a sample has expectation PDM and, with s² the
    variance of the penalties of single dimensions, variance

        (s² / count) · (1 − count / P).

    The dimensions are `redrawn` at every step, unless there is a moving average: it needs the same
    dimensions each time, so they are drawn once for the whole run and saved with it.
    """

    late = ("dims",)
    dims: Tensor | None

    def __init__(self, count: int, *, redrawn: bool) -> None:
        super().__init__()
        self.count = count
        self.redrawn = redrawn

    def drawn(self, total: int, generator: torch.Generator) -> Tensor:
        """Return the dimensions of this step, out of `total`; all of them if `count` is larger."""
        if self.redrawn:
            return self._draw(total, generator)
        if self.dims is None:
            self.dims = self._draw(total, generator)
        return self.dims

    def _draw(self, total: int, generator: torch.Generator) -> Tensor:
        return torch.randperm(total, generator=generator)[: self.count].sort().values
