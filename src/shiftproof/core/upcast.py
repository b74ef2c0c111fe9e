"""Full precision for computations that need more than half precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

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
