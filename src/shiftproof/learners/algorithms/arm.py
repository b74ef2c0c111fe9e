"""ARM: adaptive risk minimisation by a contextual meta-learner (ARM-CML)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shiftproof.core.space import hparam
from shiftproof.core.types import Batch, Task
from shiftproof.learners.algorithms import ALGORITHMS, ERM, size
from shiftproof.learners.algorithms.hparams import samples


@ALGORITHMS.register("arm")
class ARM(ERM):
    """Give the featurizer a context of the domain: ℓ(ψ(φ([x, cⁱ])), y), cⁱ = (1/b) Σⱼ g(xⁱⱼ).

    The context network g is trained with φ and ψ.  The context of an image [c, h, w] is an extra
    channel [1, h, w]; the context of any other input has the input's shape and is appended along
    the first axis.  In prediction, a batch is treated as one unknown domain, so a prediction
    depends on the other samples of its batch.

    DomainBed leaves g out of the optimiser, and its batch norm mixes the domains' statistics;
    `match_upstream` does the same.  By default g is trained, without normalisation, which would mix
    domains or remove the level and scale by which they differ.

    Paper: Zhang et al. (2021), *Adaptive Risk Minimization: Learning to Adapt to Domain Shift*.
    """

    family = "meta"
    paper = "Zhang et al. (2021)"
    predicts_with = ("featurizer", "head", "context")
    predicts_by_batch = True

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """The batch size, smaller for large images, and the context network."""

        batch_size: int = samples(regimes={"large-image": (8, None)})
        context_width: int = size(64, help="channels of the context network")
        match_upstream: bool = hparam(
            False, help="as DomainBed: context network untrained, with batch norm"
        )

    hparams: Hparams

    @classmethod
    def network_task(cls, task: Task) -> Task:
        """Return the task that featurizer and head are built for: inputs with a context."""
        channels, *rest = task.input_shape
        extra = context_shape(task.input_shape)[0]
        return dataclasses.replace(task, input_shape=(channels + extra, *rest))

    def setup(self) -> None:
        """Add the context network."""
        match_upstream = self.hparams.match_upstream
        self.context = context_network(
            self.task.input_shape, self.hparams.context_width, batch_norm=match_upstream
        )
        if not match_upstream:
            context_weights = list(self.context.parameters())
            self.optimizers["main"].add_param_group({"params": context_weights})

    def features(self, batch: Batch) -> Tensor:
        """Return φ([x, cⁱ]) of all domains, [domains, batch, k]."""
        return super().features(Batch(self.with_context(batch.x), batch.y))

    def predict(self, x: Tensor) -> Tensor:
        """Return the logits [batch, c] of x [batch, …], treated as one unknown domain."""
        logits: Tensor = self.head(self.featurizer(self.with_context(x.unsqueeze(0)).squeeze(0)))
        return logits

    def with_context(self, x: Tensor) -> Tensor:
        """Append the domain's context to x [domains, batch, *input], along the input's axis 0.

        The context is the mean of the context network's outputs over the domain's batch.
        """
        per_sample = self.context(x.flatten(0, 1))
        context = per_sample.view(*x.shape[:2], *per_sample.shape[1:]).mean(dim=1, keepdim=True)
        return torch.cat([x, context.expand(-1, x.shape[1], *per_sample.shape[1:])], dim=2)


def context_shape(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a context: one channel for an image, else the input's shape."""
    return (1, *input_shape[1:]) if len(input_shape) == 3 else input_shape


def context_network(input_shape: tuple[int, ...], width: int, *, batch_norm: bool) -> nn.Module:
    """Return g: three layers (5×5 convolutions for images) of one width, with ReLU between."""
    image = len(input_shape) == 3

    def layer(inputs: int, outputs: int) -> nn.Module:
        if image:
            return nn.Conv2d(inputs, outputs, kernel_size=5, padding=2)
        return nn.Linear(inputs, outputs)

    def hidden(inputs: int) -> list[nn.Module]:
        norm = nn.BatchNorm2d(width) if image else nn.BatchNorm1d(width)
        return [layer(inputs, width), *([norm] if batch_norm else []), nn.ReLU()]

    inputs, outputs = (input_shape[0], 1) if image else (math.prod(input_shape),) * 2
    layers = [*hidden(inputs), *hidden(width), layer(width, outputs)]
    if image:
        return nn.Sequential(*layers)
    return nn.Sequential(nn.Flatten(), *layers, nn.Unflatten(1, input_shape))
