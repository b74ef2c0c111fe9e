"""Weight soups: averages of the weights of networks with the same initial weights.

    θ_soup = (1/m) Σ_i θ_i

A uniform soup averages all draws (DiWA: Ramé et al., 2022, *Diverse Weight Averaging for
Out-of-Distribution Generalization*).  A greedy soup adds draws from the best to the worst by
validation accuracy, and keeps each that does not lower the accuracy of the average (Wortsman et
al., 2022, *Model Soups*).  Averages of networks with different random initial weights do not
predict: their hidden units do not correspond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.core.errors import InvalidValue
from shiftproof.core.types import Batch
from shiftproof.data.domain import as_numbers
from shiftproof.learners.algorithms import Algorithm

Weights = Mapping[str, Tensor]
# The running statistics of a batch norm.
STATISTICS = ("running_mean", "running_var")


@dataclass(frozen=True)
class Soup:
    """The sum of some models' weights, in float64, so that equal weights average to themselves.

    ``other`` are the first model's buffers that cannot be averaged (such as a count of batches).
    ``norms`` are the batch norms whose statistics differ between models.
    """

    total: Weights
    other: Weights
    count: int = 1
    norms: frozenset[str] = frozenset()

    @classmethod
    def of(cls, weights: Weights) -> Soup:
        """Return a soup of one model."""
        floating = {k: v.double() for k, v in weights.items() if v.is_floating_point()}
        return cls(floating, {k: v for k, v in weights.items() if k not in floating})

    def added(self, weights: Weights) -> Soup:
        """Return the soup with one more model."""
        new = Soup.of(weights)
        shapes, others = (
            {name: tuple(value.shape) for name, value in soup.total.items()} for soup in (self, new)
        )
        for name in sorted(shapes.keys() | others.keys()):
            if shapes.get(name) != others.get(name):
                raise InvalidValue(
                    f"a soup averages draws of one network, but {name} is {shapes.get(name)} in"
                    f" one and {others.get(name)} in another; fix in `hparams` what decides it"
                )
        differing = {
            name.rpartition(".")[0]
            for name, value in self.total.items()
            if name.endswith(STATISTICS) and not torch.equal(value, new.total[name] * self.count)
        }
        total = {name: value + new.total[name] for name, value in self.total.items()}
        return Soup(total, self.other, self.count + 1, self.norms | differing)

    def weights(self) -> dict[str, Tensor]:
        """Return the averages, in float32, and the other buffers."""
        return {name: (v / self.count).float() for name, v in self.total.items()} | dict(self.other)


def uniform_soup(models: Iterable[Weights]) -> Soup:
    """Return the soup of all models."""
    soup: Soup | None = None
    for weights in models:
        soup = Soup.of(weights) if soup is None else soup.added(weights)
    if soup is None:
        raise InvalidValue("a soup needs at least one model")
    return soup


def greedy_soup(
    accuracies: Sequence[float],
    model: Callable[[int], Weights],
    accuracy: Callable[[Soup], float],
) -> tuple[Soup, list[int]]:
    """Return the greedy soup, and the positions of its models in the order they were added.

    ``accuracies`` are the models' own validation accuracies, ``model`` returns the weights of one
    model, and ``accuracy`` the accuracy of a soup on the same samples.  The greedy soup's accuracy
    is never below the best of ``accuracies``.  Ties go to the first model.
    """
    first, *rest = sorted(range(len(accuracies)), key=lambda at: (-accuracies[at], at))
    soup, best, chosen = Soup.of(model(first)), accuracies[first], [first]
    for position in rest:
        candidate = soup.added(model(position))
        reached = accuracy(candidate)
        if reached >= best:
            soup, best = candidate, reached
            chosen.append(position)
    return soup, chosen


@torch.no_grad()
def refresh_statistics(
    algorithm: Algorithm, names: Iterable[str], batches: Iterable[Batch]
) -> None:
    """Recompute the statistics of the named batch norms on training batches of all domains.

    Averaged weights produce different activations, so the mean of the models' statistics does not
    fit them (Izmailov et al., 2018).  All batches have equal weight.  Statistics that are equal in
    all models were never trained (a frozen network) and stay.
    """
    modules = dict(algorithm.named_modules())
    norms = [module for name in names if isinstance(module := modules[name], _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    was_training = algorithm.training
    algorithm.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches, not a moving average
        norm.train()
    for batch in batches:
        algorithm.predict(as_numbers(batch.x.flatten(0, 1)))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    algorithm.train(was_training)
