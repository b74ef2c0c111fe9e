"""MIRO: mutual-information regularisation with a pretrained oracle."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.space import Choice, hparam
from shiftproof.core.tensors import widened
from shiftproof.core.types import Batch
from shiftproof.learners.algorithms import ALGORITHMS, ERM, Losses, weight

SMALLEST_VARIANCE = 1e-5


def gaussian_cost(features: Tensor, oracle: Tensor, variances: Tensor) -> Tensor:
    """Return −log N(z₀; z, σ²) without its constant: the mean of ½ [(z₀ − z)² / σ² + log σ²].

    z are the features, z₀ those of the oracle, of equal shape, and σ² broadcasts against both.
    Minus this cost is, up to a constant, a lower bound of the mutual information I(Z₀;Z) per
    dimension (Barber and Agakov, 2003), with the identity as the mean of q(z₀ | z).

    >>> gaussian_cost(torch.zeros(2), torch.full((2,), 3.0), torch.ones(2))
    tensor(4.5000)
    """
    distances = (widened(oracle) - widened(features)).square()
    return (0.5 * (distances / variances + variances.log())).mean()


class ChannelVariances(nn.Module):
    """σ² = softplus(b) + 1e-5, one for each channel of features of one shape.

    Channels are the second axis of maps [n, c, h, w], and the last axis of anything else.
    """

    def __init__(self, features: Tensor, initial: float = 0.1) -> None:
        super().__init__()
        axis = 1 if features.ndim == 4 else features.ndim - 1
        shape = [size if i == axis else 1 for i, size in enumerate(features.shape)]
        start = torch.tensor(initial - SMALLEST_VARIANCE, dtype=torch.float64).expm1().log()
        self.raw = nn.Parameter(torch.full(shape, start.item()))

    def forward(self) -> Tensor:
        """Return σ², of a shape that broadcasts against the features."""
        return F.softplus(self.raw) + SMALLEST_VARIANCE


@ALGORITHMS.register("miro")
class MIRO(ERM):
    """Keep layers informative of those of the initial network φ₀: L_E + λ Σ_l C(z_l, z⁰_l).

    z_l are the outputs of layer l of φ and z⁰_l those of φ₀, the frozen pretrained oracle.  With
    one variance σ²_l for each channel, trained like the network but with a larger learning rate,

        C(z, z⁰) = mean ½ [(z⁰ − z)² / σ² + log σ²],

    and −C is a lower bound of the information I(Z⁰;Z) up to a constant
    (`learners.algorithms.miro`).  Before the first step z = z⁰, and C has no gradient with respect
    to φ.

    The layers are the parts of the featurizer that have parameters: for a ResNet, its first
    convolution, its batch norm and its four blocks, where the paper uses the outputs of the stem
    and the blocks.  It is meant for a pretrained featurizer: otherwise φ₀ is a random network.
    Defaults are those of the published code, whose authors selected λ = 0.01 for PACS and VLCS and
    0.1 for the other datasets of DomainBed.

    Paper: Cha et al. (2022), *Domain Generalization by Mutual-Information Regularization with
    Pre-trained Models*.
    """

    family = "representation"
    paper = "Cha et al. (2022)"
    weighs_samples = True
    divides_batches = False  # it reads the layers of the featurizer

    @dataclass(frozen=True)
    class Hparams(ERM.Hparams):
        """λ, and the learning rate of the variances."""

        penalty_weight: float = weight(
            0.1, Choice((1.0, 0.1, 0.01, 0.001)), help="λ, weight of the regulariser"
        )
        variance_lr_factor: float = hparam(
            10.0, within=(0, 1e6), help="learning rate of the variances, as a multiple of `lr`"
        )

    hparams: Hparams

    def setup(self) -> None:
        """Add the oracle, a copy of the featurizer, and a variance for each channel."""
        self.oracle = copy.deepcopy(self.featurizer).requires_grad_(False).eval()
        dtype = next((w.dtype for w in self.featurizer.parameters()), None)
        one = torch.zeros(1, *self.task.input_shape, dtype=dtype)
        with torch.no_grad(), listening(self.oracle) as layers:
            self.oracle(one)
        self.variances = nn.ModuleList(map(ChannelVariances, layers))
        h = self.hparams
        self.optimizers["main"].add_param_group(
            {"params": list(self.variances.parameters()), "lr": h.lr * h.variance_lr_factor}
        )

    def train(self, mode: bool = True) -> Self:
        """Set the mode of everything but the oracle."""
        super().train(mode)
        self.oracle.eval()
        return self

    def objective(self, batch: Batch) -> Losses:
        """Return the mean risk plus the weighted cost of all layers."""
        with listening(self.featurizer) as layers:
            risk = self.outputs(batch).losses.mean()
        with torch.no_grad(), listening(self.oracle) as oracle_layers:
            self.oracle(batch.x.flatten(0, 1))
        costs = [
            gaussian_cost(features, oracle, variances())
            for features, oracle, variances in zip(
                layers, oracle_layers, self.variances, strict=True
            )
        ]
        cost = torch.stack(costs).sum() if costs else torch.zeros_like(risk)
        return Losses(risk + self.hparams.penalty_weight * cost, {"risk": risk, "penalty": cost})


def layers_of(network: nn.Module) -> list[nn.Module]:
    """Return the parts with parameters of the outermost module that has several such parts.

    >>> layers_of(nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(1, 2), nn.PReLU())))
    [Linear(in_features=1, out_features=2, bias=True), PReLU(num_parameters=1)]
    """
    parts = [part for part in network.children() if _has_parameters(part)]
    if not parts:
        return [network] if _has_parameters(network) else []
    return layers_of(parts[0]) if len(parts) == 1 else parts


def _has_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


@contextmanager
def listening(network: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the layers' outputs in a list during a forward pass inside the context."""
    outputs: list[Tensor] = []

    def listen(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            outputs.append(output)

    with ExitStack() as stack:
        for layer in layers_of(network):
            stack.enter_context(layer.register_forward_hook(listen))
        yield outputs
