"""Spirals: two spirals predict the label everywhere, a signature only within its own domain.

A point of class y ∈ {0, 1} lies on a spiral at radius r ~ U(0.08, 1) and angle 2πR r + π y, with
R = 3 turns, and has the signature (2y − 1) sₑ, where sₑ ~ N(0, I₈) is drawn once for each training
domain e.  In the test domain, signatures are drawn for each point and carry no information.  The
signature is the easy rule, and the spiral is the rule that generalises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from shiftproof.core.seeding import stream_seed
from shiftproof.core.space import hparam
from shiftproof.data.base import (
    DATASETS,
    DatasetCard,
    DatasetSource,
    DomainDataset,
    Progress,
    silent,
)
from shiftproof.data.domain import Domain

TEST = "test"
TRAINING = 8
SIGNATURE = 8
TURNS = 3
NOISE = 0.02


@DATASETS.register("spirals")
@dataclass(frozen=True)
class Spirals(DatasetSource):
    """A test domain and eight others; a signature correlates with the label in each of the others.

    Sizes and distributions are those of `Spirals` in a version of DomainBed (05a8cc0), after
    Parascandolo et al. (2021); the current version has no such dataset.  Each spiral is scaled to
    unit variance, like the signatures.
    """

    per_domain: int = hparam(1024, within=(2, 1e6), help="points per training domain")

    card = DatasetCard(
        summary="two spirals, and a signature that tells the label in training domains only",
        counts={TEST: 2000, **{str(domain): 1024 for domain in range(TRAINING)}},
        classes=("0", "1"),
        input_shape=(2 + SIGNATURE,),
        regime="table",
        backbone="mlp",
        eval_every=10,
        publication="Parascandolo et al. (2021), Learning Explanations That Are Hard to Vary",
        licence="generated; nothing to license",
    )

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the domains; all randomness comes from the stream `data` of the seed."""
        rng = np.random.default_rng(stream_seed(seed, "data"))
        signatures = rng.standard_normal((TRAINING, SIGNATURE))
        domains = []
        for name, count in self.card.counts.items():
            rows = count if name == TEST else self.per_domain
            y = rng.integers(2, size=rows)
            if name == TEST:
                signature = rng.standard_normal((rows, SIGNATURE))
            else:
                signature = (2 * y - 1)[:, None] * signatures[int(name)]
            x = np.hstack([spiral(y, rng), signature]).astype(np.float32)
            domains.append(Domain(name, torch.from_numpy(x), torch.from_numpy(y)))
        return self.card.dataset("spirals", domains)


def spiral(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return points [n, 2] on the spirals of their classes, scaled to unit variance."""
    radius = rng.uniform(0.08, 1, len(y))
    angle = 2 * np.pi * TURNS * radius + np.pi * y
    radius = radius + rng.uniform(-NOISE, NOISE, len(y))
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * radius[:, None]
    scaled: np.ndarray = points / points.std(axis=0)
    return scaled
