"""The projection onto a ball is the nearest point of it."""

from __future__ import annotations

import torch
from _internals import onto_ball


def test_outside_it_is_the_nearest_point_and_inside_the_point_itself() -> None:
    generator = torch.Generator().manual_seed(0)
    centre, point = (
        [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in ((3, 2), (3,))]
        for _ in range(2)
    )

    def distance(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
        return torch.cat([(x - y).flatten() for x, y in zip(a, b, strict=True)]).norm().item()

    away = distance(point, centre)
    found = onto_ball(point, centre, away / 3)
    assert abs(distance(found, centre) - away / 3) < 1e-12
    # No point of the ball is nearer than the difference of distance and radius.
    assert abs(distance(found, point) - away * 2 / 3) < 1e-12
    assert distance(onto_ball(point, centre, away * 1.01), point) < 1e-12
    assert distance(onto_ball(centre, centre, 0.5), centre) == 0
