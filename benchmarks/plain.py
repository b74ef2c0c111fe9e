"""The straightforward version of matching: the reference for tests and for speed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap


def plain_gradients(head: nn.Linear, features: Tensor, labels: Tensor) -> Tensor:
    """Return per-sample gradients of cross-entropy by torch.func: [domains, batch, P]."""
    parameters: dict[str, Tensor] = dict(head.named_parameters())

    def risk(parameters: dict[str, Tensor], feature: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(head, parameters, (feature[None],))
        return nn.functional.cross_entropy(logits, label[None])

    each = vmap(grad(risk), in_dims=(None, 0, 0))(
        parameters, features.flatten(0, 1), labels.flatten()
    )
    flat = torch.cat([part.flatten(1) for part in each.values()], dim=1)
    return flat.view(*labels.shape, -1)


class PlainMatch:
    """PDM on a moving average, by sort(dim=batch) and autograd (Algorithm 1)."""

    def __init__(self, gamma: float, order: int = 2, trim: int = 0, *, corrected: bool) -> None:
        self.gamma, self.order, self.trim, self.corrected = gamma, order, trim, corrected
        self.average: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return the penalty of x [domains, batch, dims]."""
        ranked = x.sort(dim=1).values
        if self.gamma > 0:
            before = torch.zeros_like(ranked) if self.average is None else self.average
            ranked = self.gamma * before + (1 - self.gamma) * ranked
            self.average = ranked.detach()
            if self.corrected:
                ranked = ranked / (1 - self.gamma)
        ranked = ranked[:, self.trim : ranked.shape[1] - self.trim]
        deviation = ranked - ranked.mean(dim=0)
        return (deviation.square() if self.order == 2 else deviation.abs()).mean()
