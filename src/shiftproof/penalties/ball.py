"""The point of a ball that is nearest to given weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def onto_ball(points: Sequence[Tensor], centre: Sequence[Tensor], radius: float) -> list[Tensor]:
    """Return c + min(1, r / ‖w − c‖) (w − c): the projection of w onto the ball around c.

    `points` are the parts of w and `centre` those of c, in the same shapes; the norm is over all
    parts together, and the radius is positive.

    >>> onto_ball([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1)] * 2, radius=10)
    [tensor([3.]), tensor([4.])]
    >>> onto_ball([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1)] * 2, radius=2.5)
    [tensor([1.5000]), tensor([2.])]
    """
    steps = [w - c for w, c in zip(points, centre, strict=True)]
    distance = torch.stack([step.square().sum() for step in steps]).sum().sqrt()
    share = radius / distance.clamp_min(radius)
    return [c + share * step for c, step in zip(centre, steps, strict=True)]
