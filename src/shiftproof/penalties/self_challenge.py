"""The features that RSC mutes, and for which samples (Huang et al., 2020).

RSC mutes the features that a prediction uses most, for the samples whose prediction then changes
most.
"""

from __future__ import annotations

import math

from torch import Tensor


def label_score(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logit of each sample's label; for a single logit s, that is s or −s.

    logits [..., c] or [..., 1], labels [...] → [...].
    """
    if logits.shape[-1] == 1:
        return logits.squeeze(-1) * (2 * labels - 1)
    return logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def percentile(x: Tensor, percent: float) -> Tensor:
    """Return the linearly interpolated percentile along the last axis: [..., n] → [..., 1].

    It rounds as `numpy.percentile` does, unlike `torch.quantile`.  That matters: a percentile may
    fall on a data point (2/3 of the way through 10 features is the 7th), and the last bit then
    decides whether that point is below it.

    >>> import torch
    >>> percentile(torch.tensor([3.0, 1.0, 2.0]), 75)
    tensor([2.5000])
    """
    ranked = x.sort(dim=-1).values
    rank = (x.shape[-1] - 1) * (percent / 100)
    below = min(math.floor(rank), x.shape[-1] - 1)
    above = min(below + 1, x.shape[-1] - 1)
    fraction = rank - below
    low, high = ranked[..., below : below + 1], ranked[..., above : above + 1]
    gap = high - low
    return low + gap * fraction if fraction < 0.5 else high - gap * (1 - fraction)


def spared_features(gradients: Tensor, drop: float) -> Tensor:
    """Return which features to keep: all but the share `drop` of largest gradient per sample.

    gradients [..., k] of `label_score` by the features → [..., k] of booleans.
    """
    return gradients < percentile(gradients, (1 - drop) * 100)


def spared_samples(changes: Tensor, drop: float) -> Tensor:
    """Return which samples keep all features: all but the share `drop` that muting hurts most.

    changes [domains, batch], the decrease of the label's probability by muting → booleans.
    """
    return changes < percentile(changes.flatten(), (1 - drop) * 100)
