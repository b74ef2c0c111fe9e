"""Some dimensions in place of all: an unbiased estimate of PDM for very large gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof.core.late_buffers import LateBuffers


class SampledDimensions(LateBuffers):
    """Which of P dimensions to match: ``count`` different ones, each set alike probable.

    PDM is a mean over dimensions, so that its mean over these has PDM for its expectation, and as
    its variance, with s² the variance of the single dimensions' penalties,

        (s² / count) · (1 − count / P).

    They are ``redrawn`` at every step, unless a moving average remembers what was sorted: the same
    dimensions must then come again, and one draw serves the whole run (and is saved with it).
    """

    late = ("dims",)
    dims: Tensor | None

    def __init__(self, count: int, *, redrawn: bool) -> None:
        super().__init__()
        self.count = count
        self.redrawn = redrawn

    def drawn(self, total: int, generator: torch.Generator) -> Tensor:
        """Return the dimensions of this step, of ``total``; all of them if they are not more."""
        if self.redrawn:
            return self._draw(total, generator)
        if self.dims is None:
            self.dims = self._draw(total, generator)
        return self.dims

    def _draw(self, total: int, generator: torch.Generator) -> Tensor:
        return torch.randperm(total, generator=generator)[: self.count].sort().values
