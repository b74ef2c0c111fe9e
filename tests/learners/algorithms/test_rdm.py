"""RDM: the loss before and after its warm-up, and the restart of Adam."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from _internals import RDM
from torch import Tensor, nn

from shiftproof import Batch, Task


def build(**given: float) -> RDM:
    torch.manual_seed(0)
    featurizer = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    hparams = RDM.Hparams(**{"lr": 0.02, **given})  # type: ignore[arg-type]
    task = Task((5,), 3, num_domains=3, regime="table")
    return RDM(task, featurizer, nn.Linear(4, 3), hparams, torch.Generator()).double()


def batch_of(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 6, 5, dtype=torch.float64, generator=generator)
    return Batch(x + torch.arange(3).view(3, 1, 1), torch.randint(3, (3, 6), generator=generator))


def losses_of(algorithm: RDM, batch: Batch) -> np.ndarray:
    with torch.no_grad():
        logits = algorithm.head(algorithm.featurizer(batch.x)).numpy()
    chosen = np.take_along_axis(logits, batch.y.numpy()[..., None], axis=2)[..., 0]
    found: np.ndarray = np.log(np.exp(logits).sum(axis=2)) - chosen
    return found


def mean_kernel(a: np.ndarray, b: np.ndarray) -> float:
    squares = (a[:, None] - b[None]) ** 2
    return float(sum(np.exp(-(10.0**e) * squares).mean() for e in range(-4, 4)))


def test_the_loss_is_the_risk_and_then_the_penalties_too() -> None:
    algorithm = build(penalty_weight=3.0, variance_weight=0.7, anneal_steps=1)
    for step, seed in enumerate((0, 1, 2)):
        batch = batch_of(seed)
        losses = losses_of(algorithm, batch)
        worst, every = losses[losses.mean(axis=1).argmax()], losses.ravel()
        mmd = mean_kernel(worst, worst) + mean_kernel(every, every) - 2 * mean_kernel(worst, every)
        penalty = 3.0 * mmd + 0.7 * (worst.var(ddof=1) + every.var(ddof=1))
        measured = algorithm.update(batch)
        expected = every.mean() + (penalty if step >= 1 else 0)
        assert measured["loss"].item() == pytest.approx(expected, rel=1e-9)
        assert measured["matching"].item() == pytest.approx(mmd, rel=1e-9)


def test_adam_restarts_with_the_lower_rate() -> None:
    """Adam's first step moves each weight by the learning rate, whatever its gradient."""

    def moved(algorithm: RDM, seed: int) -> Tensor:
        before = nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()
        algorithm.update(batch_of(seed))
        return (nn.utils.parameters_to_vector(algorithm.parameters()) - before).abs()

    algorithm = build(anneal_steps=2, annealed_lr=1e-4)
    for seed, rate in ((0, 0.02), (2, 1e-4)):
        torch.testing.assert_close(
            moved(algorithm, seed), torch.full((39,), rate).double(), rtol=1e-3, atol=0
        )
        algorithm.update(batch_of(seed + 1))
