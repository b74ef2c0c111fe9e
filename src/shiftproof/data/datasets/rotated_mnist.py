"""Rotated MNIST: the same digits at six angles (covariate shift)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.core.seeding import stream_seed
from shiftproof.core.space import hparam
from shiftproof.data.base import DATASETS, DatasetSource, DomainDataset, Progress, silent
from shiftproof.data.datasets.mnist import Digits, load_mnist, mnist_card
from shiftproof.data.domain import Domain

ANGLES = (0, 15, 30, 45, 60, 75)


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Rotate uint8 images [n, h, w] counter-clockwise about their centre.

    Pixels are interpolated bilinearly; pixels beyond the border are black.
    """
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    # Maps each new pixel (x, y), with y downward, to its source.
    back = torch.tensor([[cosine, -sine, 0.0], [sine, cosine, 0.0]])
    shape = [len(images), 1, *images.shape[1:]]
    grid = F.affine_grid(back.expand(len(images), 2, 3), shape, align_corners=False)
    turned = F.grid_sample(images.view(shape).float(), grid, align_corners=False)
    return turned.round().to(torch.uint8).view_as(images)


@DATASETS.register("rotated-mnist")
@dataclass(frozen=True)
class RotatedMNIST(DatasetSource):
    """All 70,000 digits, shuffled and assigned to six domains in turn, each with its angle."""

    side: int = hparam(28, choices=(28, 14), help="height and width; 14 takes every second pixel")

    card = mnist_card(
        summary="the ten digits, rotated by one angle in each domain (covariate shift)",
        counts={str(angle): 11_667 if angle < 60 else 11_666 for angle in ANGLES},
        classes=tuple("0123456789"),
        input_shape=(1, 28, 28),
        publication="Ghifary et al. (2015), Domain Generalization for Object Recognition with"
        " Multi-task Autoencoders; in this form Gulrajani and Lopez-Paz (2021)",
    )

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the six domains, named after their angles in degrees."""
        rng = np.random.default_rng(stream_seed(seed, "data"))
        mnist = load_mnist()
        order = rng.permutation(len(mnist.labels))
        domains = []
        for position, angle in enumerate(ANGLES):
            digits = mnist.take(order[position :: len(ANGLES)])
            turned = Digits(rotate(digits.images, angle), digits.labels).thinned(self.side)
            x = turned.images.unsqueeze(1)
            domains.append(Domain(str(angle), x, digits.labels.long()))
        return self.card.dataset("rotated-mnist", domains)
