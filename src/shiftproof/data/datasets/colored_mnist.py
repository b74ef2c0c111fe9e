"""Colored MNIST: a colour that predicts the label better than the digit does, but not everywhere.

The label is whether a digit is below 5, and 25% of the labels are flipped.  The colour agrees with
this label for 90%, 80% and 10% of the samples in the three domains, which are named after these
shares.  On the last domain, a model that relies on the colour fails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from shiftproof.core.seeding import stream_seed
from shiftproof.core.space import hparam
from shiftproof.data.base import DATASETS, DatasetSource, DomainDataset, Progress, silent
from shiftproof.data.datasets.mnist import Digits, load_mnist, mnist_card
from shiftproof.data.domain import Domain

AGREEMENT = {"90%": 0.9, "80%": 0.8, "10%": 0.1}
LABEL_NOISE = 0.25
CLASSES = ("5-9", "0-4")


def colour(name: str, digits: Digits, agreement: float, rng: np.random.Generator) -> Domain:
    """Return a domain whose colours agree with the noisy labels at the rate `agreement`.

    y = 1[digit < 5] ⊕ Bernoulli(0.25) and colour = y ⊕ Bernoulli(1 − agreement).  The image fills
    channel `colour` of two: [n, h, w] → [n, 2, h, w].
    """
    n = len(digits.labels)
    noise = torch.from_numpy(rng.random(n) < LABEL_NOISE)
    disagrees = torch.from_numpy(rng.random(n) >= agreement)
    y = (digits.labels < 5) ^ noise
    channel = (y ^ disagrees).long()
    x = torch.zeros(n, 2, *digits.images.shape[1:], dtype=torch.uint8)
    x[torch.arange(n), channel] = digits.images
    return Domain(name, x, y.long())


@DATASETS.register("colored-mnist")
@dataclass(frozen=True)
class ColoredMNIST(DatasetSource):
    """All 70,000 digits, shuffled and assigned to the three domains in turn, as in DomainBed."""

    side: int = hparam(28, choices=(28, 14), help="height and width; 14 takes every second pixel")

    card = mnist_card(
        summary="digits below 5 or not, coloured; the colour's meaning reverses (concept shift)",
        counts={"90%": 23_334, "80%": 23_333, "10%": 23_333},
        classes=CLASSES,
        input_shape=(2, 28, 28),
        publication="Arjovsky et al. (2019), Invariant Risk Minimization;"
        " in this form Gulrajani and Lopez-Paz (2021), In Search of Lost Domain Generalization",
    )

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the three domains."""
        rng = np.random.default_rng(stream_seed(seed, "data"))
        mnist = load_mnist().thinned(self.side)
        order = rng.permutation(len(mnist.labels))
        domains = [
            colour(name, mnist.take(order[position :: len(AGREEMENT)]), agreement, rng)
            for position, (name, agreement) in enumerate(AGREEMENT.items())
        ]
        return self.card.dataset("colored-mnist", domains)


@DATASETS.register("colored-mnist-irm")
@dataclass(frozen=True)
class ColoredMNISTForIRM(DatasetSource):
    """14×14 pixels: two training domains of 25,000, a reversed one of 10,000, and the same in gray.

    As in Arjovsky et al. (2019), the first 50,000 digits of MNIST's training set, shuffled, form
    the training domains, and the next 10,000 form the reversed domain.  `gray` holds these 10,000
    digits with both channels filled, so that they have no colour.
    """

    per_domain: int = hparam(
        25_000, within=(1, 25_000), help="digits per domain (at most 10,000 in the reversed one)"
    )

    card = mnist_card(
        summary="Colored MNIST at 14×14 for full-batch training, with a gray evaluation set",
        counts={"90%": 25_000, "80%": 25_000, "10%": 10_000},
        classes=CLASSES,
        input_shape=(2, 14, 14),
        backbone="mlp",
        publication="Arjovsky et al. (2019), Invariant Risk Minimization",
    )

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the three domains and, as an extra, `gray`."""
        rng = np.random.default_rng(stream_seed(seed, "data"))
        small = load_mnist().thinned(14)
        order = rng.permutation(50_000)
        reversed_digits = np.arange(50_000, 60_000)
        parts = [order[0::2], order[1::2], reversed_digits]
        domains = [
            colour(name, small.take(part[: self.per_domain]), agreement, rng)
            for part, (name, agreement) in zip(parts, AGREEMENT.items(), strict=True)
        ]
        coloured = domains[-1].stored(np.arange(len(domains[-1])))
        # Both channels hold the image.
        x = coloured.amax(dim=1, keepdim=True).expand_as(coloured).contiguous()
        gray = Domain("gray", x, domains[-1].y)
        return self.card.dataset("colored-mnist-irm", domains, extras=[gray])
