"""Modules with buffers whose shape depends on the data."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn


class LateBuffers(nn.Module):
    """A module whose buffers `late` are None until data is seen, and load with any shape."""

    late: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        for name in self.late:
            self.register_buffer(name, None)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # A new module has no buffer to load into, and a used one may have a different shape.
        for name in self.late:
            saved = state_dict.get(prefix + name)
            setattr(self, name, None if saved is None else torch.empty_like(saved))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
