"""One network that predicts the domain, the label, and the label of a known domain.

The body h is shared.  Each of its three answers is linear in (h(x), x); the one for a known domain
d adds an own linear part Δ_d to that of all domains, which weight decay keeps small, so that a
domain with few rows borrows from the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.core.seeding import seed_hash
from shiftproof.information.sample import Floats, Ints, Sample

HIDDEN = 64
DROPOUT = 0.1
SMALLEST_BATCH, LARGEST_BATCH, FEWEST_STEPS = 16, 256, 20
MOST_EPOCHS, PATIENCE = 40, 4
# Every so many rows, one is not trained on, to tell when to stop.
JUDGED = 7


class Answers(NamedTuple):
    """Log probabilities of some rows: domain [n, D], label [n, C], of each domain [n, D, C]."""

    domain: Floats
    label: Floats
    known: Floats


class _Network(nn.Module):
    def __init__(self, columns: int, domains: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(columns, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Dropout(DROPOUT),
        )  # fmt: skip
        self.domain = nn.Linear(HIDDEN + columns, domains)
        self.label = nn.Linear(HIDDEN + columns, classes)
        self.own = nn.Parameter(torch.zeros(domains, HIDDEN + columns + 1, classes))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of domain [n, D] and label [n, C], and the features [n, ·]."""
        h = torch.cat([self.body(x), x], dim=1)
        return self.domain(h), self.label(h), h

    def of_domain(self, label: Tensor, h: Tensor, d: Tensor) -> Tensor:
        """Return logits of the label in the domains d [n]."""
        ones = torch.cat([h, torch.ones_like(h[:, :1])], dim=1)
        return label + torch.einsum("nf,nfc->nc", ones, self.own[d])

    def of_all(self, label: Tensor, h: Tensor) -> Tensor:
        """Return logits of the label in every domain: [n, D, C]."""
        ones = torch.cat([h, torch.ones_like(h[:, :1])], dim=1)
        return label[:, None] + torch.einsum("nf,dfc->ndc", ones, self.own)


def fit_network(x: Floats, sample: Sample, train: Ints, where: Ints, seed: int) -> Answers:
    """Train on the rows `train`; return the log probabilities of the rows `where`.

    Each answer is that of the epoch at which it predicts rows best that were not trained on.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_hash("network", seed, len(train)))
        return _trained(x, sample, train, where)


def _trained(x: Floats, sample: Sample, train: Ints, where: Ints) -> Answers:
    inputs = torch.from_numpy(np.clip(x, -6, 6).astype(np.float32))
    d, y = torch.from_numpy(sample.d), torch.from_numpy(sample.y)
    weights = torch.from_numpy(sample.weights * len(sample.d)).float()
    order = torch.from_numpy(train)[torch.randperm(len(train))]
    judge, fitted = order[::JUDGED], order[torch.arange(len(order)) % JUDGED != 0]
    there = torch.from_numpy(where)
    network = _Network(x.shape[1], sample.domains, sample.classes)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2, fused=True)
    best, waited = [np.inf] * 3, 0
    answers: list[Tensor] = [torch.empty(0)] * 3
    for _ in range(MOST_EPOCHS):
        network.train()
        for rows in _batches(fitted):
            domain, label, h = network(inputs[rows])
            known = network.of_domain(label.detach(), h, d[rows])
            tasks = ((domain, d[rows]), (label, y[rows]), (known, y[rows]))
            risks = torch.stack(
                [F.cross_entropy(logits, target, reduction="none") for logits, target in tasks]
            ).sum(dim=0)
            optimizer.zero_grad()
            (risks * weights[rows]).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.no_grad():
            domain, label, h = network(inputs[judge])
            given = (domain, label, network.of_domain(label, h, d[judge]))
            losses = [
                float((F.cross_entropy(logits, target, reduction="none") * weights[judge]).mean())
                for logits, target in zip(given, (d[judge], y[judge], y[judge]), strict=True)
            ]
            better = [loss < least for loss, least in zip(losses, best, strict=True)]
            waited = 0 if any(better) else waited + 1
            if any(better):
                domain, label, h = network(inputs[there])
                told = (domain, label, network.of_all(label, h))
                answers = [
                    t if yes else old for t, yes, old in zip(told, better, answers, strict=True)
                ]
                best = [min(pair) for pair in zip(losses, best, strict=True)]
        if waited == PATIENCE:
            break
    return Answers(*(F.log_softmax(each.double(), dim=-1).numpy() for each in answers))


def _batches(rows: Tensor) -> Iterator[Tensor]:
    """Split rows into random batches, small enough for 20 steps if possible."""
    size = max(SMALLEST_BATCH, min(LARGEST_BATCH, len(rows) // FEWEST_STEPS))
    return iter(torch.split(rows[torch.randperm(len(rows))], size))
