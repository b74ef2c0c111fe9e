"""The supervised contrastive loss, which pulls samples of one class together and others apart."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.tensors import in_full_precision
from shiftproof.penalties.domain_bottleneck import BASE_TEMPERATURE, log_sum


@in_full_precision
def supervised_contrast(features: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over samples i of −(1/|Pᵢ|) Σ_{j∈Pᵢ} log p(j|i) (Khosla et al., 2020), ≥ 0.

    p(j|i) ∝ exp(uᵢ·uⱼ / 0.07) over all j ≠ i, with u the features scaled to length 1, and Pᵢ are
    the other samples of i's class.  Samples with empty Pᵢ are left out; if all are, return 0.

    features [n, k], labels [n] → scalar.
    """
    u = F.normalize(features, dim=1)
    similar = u @ u.T / BASE_TEMPERATURE
    others = ~torch.eye(len(u), dtype=torch.bool, device=u.device)
    positive = others & (labels.unsqueeze(1) == labels)
    logs = similar - log_sum(similar, others).unsqueeze(1)
    counts = positive.sum(dim=1)
    per_sample = -torch.where(positive, logs, 0).sum(dim=1) / counts.clamp_min(1)
    return per_sample.sum() / (counts > 0).sum().clamp_min(1)
