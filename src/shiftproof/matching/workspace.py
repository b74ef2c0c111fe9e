"""Memory that is reused for block after block.

Freed large tensors return to the operating system, which supplies new memory page by page.  This
takes several times as long as writing to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Workspace:
    """Tensors that reuse the memory of the last one of the same name; its type must be the same.

    >>> space, like = Workspace(), torch.zeros(1)
    >>> first, second = space.empty("x", like, (2, 3)), space.empty("x", like, (4,))
    >>> second.shape, second.data_ptr() == first.data_ptr()
    (torch.Size([4]), True)
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def empty(
        self, name: str, like: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None
    ) -> Tensor:
        """Return an empty tensor on the device of `like`, of its type unless `dtype` is given."""
        size = math.prod(shape)
        held = self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = like.new_empty(size, dtype=dtype or like.dtype)
        return held[:size].view(tuple(shape))
