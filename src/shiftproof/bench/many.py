"""Many small networks at once: is one batched training of N faster than N by themselves?

The networks of the ``lite`` sweep (a perceptron on 14 × 14 digits, two domains of 64, ERM) are
trained one by one as the loop does it, and stacked: one forward pass by batched products through
``torch.func``, one Adam for all, a learning rate for each.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

from shiftproof.bench.matching import batch_for, built
from shiftproof.bench.measure import Figure, medians, ratio_of, seconds_in_turn
from shiftproof.core.types import Task

MODELS_AT_ONCE = 16
HIDDEN = 128


class Stacked:
    """N networks of one shape as one, trained by Adam."""

    def __init__(self, networks: list[torch.nn.Module], rates: Tensor) -> None:
        self._network = networks[0]
        state: tuple[dict[str, Tensor], dict[str, Tensor]] = stack_module_state(networks)
        self.parameters = {name: value.detach() for name, value in state[0].items()}
        self._first = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self._second = {name: torch.zeros_like(p) for name, p in self.parameters.items()}
        self._rates, self._steps = rates, 0
        self._slopes = vmap(grad(self._risk))

    def _risk(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(self._network, parameters, (x,))
        return F.cross_entropy(logits, y)

    def update(self, x: Tensor, y: Tensor) -> None:
        """Take one step of each: x [N, batch, …], y [N, batch]."""
        slopes = self._slopes(self.parameters, x, y)
        self._steps += 1
        for name, parameter in self.parameters.items():
            first, second, slope = self._first[name], self._second[name], slopes[name]
            first.lerp_(slope, 0.1)
            second.mul_(0.999).addcmul_(slope, slope, value=0.001)
            rates = self._rates.view(-1, *[1] * (parameter.ndim - 1)) / (1 - 0.9**self._steps)
            scale = (second / (1 - 0.999**self._steps)).sqrt_().add_(1e-8)
            parameter.sub_(rates * first / scale)


def many() -> Iterator[Figure]:
    """Throughput of N stacked networks against N single ones, at two of the sweep's batch sizes."""
    for batch_size in (64, 8):
        yield _together(batch_size)


def _together(batch_size: int) -> Figure:
    task = Task((2, 14, 14), 2, 2, "small-image")
    model: dict[str, object] = {"hidden": HIDDEN}
    rates = torch.logspace(-4.5, -2.5, MODELS_AT_ONCE)
    single = [
        built("erm", task, "mlp", model, {"lr": float(rate), "batch_size": batch_size})
        for rate in rates
    ]
    networks: list[torch.nn.Module] = [
        torch.nn.Sequential(algorithm.featurizer, algorithm.head) for algorithm in single
    ]
    stacked = Stacked(networks, rates)
    batches = [batch_for(task, batch_size, seed) for seed in range(MODELS_AT_ONCE)]
    x = torch.stack([batch.x.flatten(0, 1) for batch in batches])
    y = torch.stack([batch.y.flatten(0, 1) for batch in batches])

    def one_by_one() -> None:
        for algorithm, batch in zip(single, batches, strict=True):
            algorithm.update(batch)

    taken = seconds_in_turn(
        {"one by one": one_by_one, "together": lambda: stacked.update(x, y)}, 31, 3
    )
    apart = max(
        float((network.get_parameter(name).detach() - value[i]).abs().max())
        for i, network in enumerate(networks)
        for name, value in stacked.parameters.items()
    )
    return Figure(
        f"many-{batch_size}",
        f"throughput of {MODELS_AT_ONCE} networks of the lite sweep together / one by one, batches"
        f" of 2 × {batch_size}",
        ratio_of(taken, "one by one", "together"),
        "≥",
        3.0,
        {
            "remark": "arithmetic and Adam are most of both; not part of sweeps",
            "seconds of a step of all": medians(taken),
            "weights apart after 34 steps": apart,
        },
    )
