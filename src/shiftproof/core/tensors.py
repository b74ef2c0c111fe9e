"""Modules with buffers whose shape depends on the data, and computations in full precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn


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


Groups = TypeVar("Groups", Tensor, Tensor | Sequence[Tensor])
Rest = ParamSpec("Rest")


def in_full_precision(
    distance: Callable[Concatenate[Groups, Rest], Tensor],
) -> Callable[Concatenate[Groups, Rest], Tensor]:
    """Make a distance between groups of points compute in float32 or better, even under autocast.

    Distances are differences of close values, and narrow kernels amplify rounding errors.
    """

    @wraps(distance)
    def precise(groups: Groups, /, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor:
        with torch.autocast(groups[0].device.type, enabled=False):
            if isinstance(groups, Tensor):
                return distance(widened(groups), *args, **kwargs)
            return distance([widened(group) for group in groups], *args, **kwargs)

    return precise


def widened(x: Tensor) -> Tensor:
    """Return x in float32 or better, since half precision loses differences of close values."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
