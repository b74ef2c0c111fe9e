"""One number per step, kept on the device until it is read."""

from __future__ import annotations

import torch
from torch import Tensor

ROOM = 256


class DeviceSeries:
    """A series of numbers in a few tensors.

    One tensor per number would be simpler, but thousands of tiny allocations between the large ones
    of a step fragment the heap: the memory of a run on images would grow by half a megabyte per
    step.
    """

    def __init__(self, values: Tensor | None = None) -> None:
        self._filled = [] if values is None or len(values) == 0 else [values.detach().clone()]
        self._open: Tensor | None = None
        self._count = 0

    def append(self, value: Tensor) -> None:
        """Add a number, without waiting for the device."""
        if self._open is None:
            self._open = torch.empty(ROOM, dtype=value.dtype, device=value.device)
        self._open[self._count].copy_(value)
        self._count += 1
        if self._count == ROOM:
            self._filled.append(self._open)
            self._open, self._count = None, 0

    def values(self) -> Tensor:
        """Return all numbers so far, [n]."""
        parts = list(self._filled)
        if self._open is not None:
            parts.append(self._open[: self._count])
        return torch.cat(parts) if parts else torch.empty(0)

    def __len__(self) -> int:
        return sum(map(len, self._filled)) + self._count
