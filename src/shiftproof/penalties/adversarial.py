"""Parts of a domain discriminator's loss: a gradient penalty, and weights of samples."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def input_gradient_penalty(risk: Tensor, inputs: Tensor) -> Tensor:
    """Return (1/n) Σⱼ ‖∂ℓⱼ/∂zⱼ‖², differentiable.

    risk [...] holds the losses ℓⱼ of the n samples, and inputs [..., k] their inputs zⱼ.
    """
    (gradients,) = torch.autograd.grad(risk.sum(), inputs, create_graph=True)
    return gradients.square().sum(dim=-1).mean()


def class_balancing_weights(labels: Tensor, num_classes: int) -> Tensor:
    """Return a weight per sample that gives every class the same total: 1 / (c n_y).

    n_y is the number of samples of class y, and c the largest label in the batch plus 1, as
    published; in a batch with all c classes the weights sum to 1.  labels [...] → [...], in single
    precision as published.

    >>> class_balancing_weights(torch.tensor([0, 1, 1]), num_classes=2)
    tensor([0.5000, 0.2500, 0.2500])
    """
    counts = F.one_hot(labels.flatten(), num_classes).sum(dim=0)
    return 1 / (counts[labels] * (labels.max() + 1)).float()
