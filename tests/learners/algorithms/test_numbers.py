"""Networks that predict numbers: a spurious feature whose slope changes its sign.

The label is y = z + ε.  The second feature s = a y + noise is an effect of it, with another slope a
in every domain: 1 and ½ in training, −1 in the next domain.  Least squares use it, for it says
more of y than z does; matched gradients must not, since the error then depends on the domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from _internals import InvalidValue, build, number_problem

from shiftproof import Batch, Domain, DomainDataset

SLOPES = (1.0, 0.5, -1.0)


def domains(seed: int, n: int = 400) -> list[Domain]:
    rng = np.random.default_rng(seed)
    parts = []
    for slope in SLOPES:
        z = rng.normal(size=n)
        y = z + 0.5 * rng.normal(size=n)
        s = slope * y + 0.25 * rng.normal(size=n)
        x = torch.from_numpy(np.column_stack([z, s])).float()
        parts.append(Domain(f"slope {slope}", x, torch.from_numpy(y)))
    return parts


def squared_error(name: str, seed: int, **hparams: Any) -> float:
    """Return the mean squared error in the last domain of a linear model of the others."""
    *trained_on, target = domains(seed)
    data = DomainDataset("slopes", tuple(trained_on), (), "table", "mlp", 0, targets=("y",))
    algorithm = build(name, data, {"lr": 0.05, **hparams}, seed=seed, depth=0)
    task = algorithm.task
    batch = Batch(
        torch.stack([domain.x for domain in trained_on]),  # type: ignore[arg-type]
        torch.stack([task.in_standard_units(domain.y) for domain in trained_on]),
    )
    for _ in range(200):
        algorithm.update(batch)
    with torch.no_grad():
        found = task.in_units(algorithm.predict(target.x).double())  # type: ignore[arg-type]
    return float((found - target.y).square().mean())


@pytest.mark.parametrize("seed", range(5))
def test_matching_halves_the_error_of_least_squares_at_least(seed):
    matching = {"gradient_weight": 1e3, "gradient_warmup": 50, "gradient_ema": 0.0}
    idm = squared_error("idm", seed, match_representations=False, **matching)
    assert squared_error("erm", seed) > 2 * idm
    assert idm < 1  # the mean of y has an error of 1.25, and z alone one of 0.25


def test_matching_within_classes_is_refused():
    with pytest.raises(InvalidValue, match='`match_within="class"` compares classes'):
        build("idm", number_problem(), {"match_within": "class"})
