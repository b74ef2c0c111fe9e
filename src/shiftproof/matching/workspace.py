"""Memory that is used again for block after block.

Large tensors return to the system when they are freed, and it supplies new memory page by page.
This takes several times as long as to write to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Workspace:
    """Tensors that are overwritten by the next of the same name, which has the same type.

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
