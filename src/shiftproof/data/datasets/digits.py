"""Digits from three sources: MNIST, MNIST-M and USPS."""

from __future__ import annotations

from dataclasses import dataclass

from shiftproof.core.errors import DataError
from shiftproof.core.space import hparam
from shiftproof.data.base import DATASETS, DatasetSource, DomainDataset, Progress, silent
from shiftproof.data.datasets.mnist import load_mnist, mnist_card
from shiftproof.data.datasets.mnist_m import MNISTM
from shiftproof.data.datasets.usps import USPS
from shiftproof.data.domain import Domain
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.library.base import folder_of, local_copy

IMPORTED = (MNISTM, USPS)


@DATASETS.register("digits")
@dataclass(frozen=True)
class DigitsOfThreeSources(DatasetSource):
    """The ten digits; pen, scanner and background shift.

    MNIST is part of the package, as grey images of three equal channels.  MNIST-M and USPS must be
    imported once, under their own names.
    """

    per_domain: int = hparam(
        0, within=(0, 1e6), help="number of digits per source, the first ones; 0 for all"
    )

    card = mnist_card(
        summary="the ten digits of MNIST, MNIST-M and USPS (import the last two first)",
        counts={"mnist": 70_000, **MNISTM.card.counts, **USPS.card.counts},
        classes=tuple("0123456789"),
        input_shape=(3, 28, 28),
        publication="LeCun et al. (1998), Ganin and Lempitsky (2015), and Hull (1994)",
        licence="CC BY-SA 3.0 (MNIST); see mnist-m and usps",
    )

    needs = tuple(source.name for source in IMPORTED)

    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the three domains; the seed is not used."""
        absent = [name for name in self.needs if local_copy(name) is None]
        if absent:
            raise DataError(
                f"digits needs {' and '.join(absent)}; run"
                f" `shiftproof data import {absent[0]} PATH` with your own copy"
            )
        most = self.per_domain or None
        mnist = load_mnist()
        x = mnist.images[:most].unsqueeze(1).expand(-1, 3, -1, -1)
        domains = [Domain("mnist", x, mnist.labels[:most].long())]
        notes: list[str] = []
        view = ImageView(image_size=28, augment=False)
        for source in IMPORTED:
            samples, found = find_images(folder_of(source.name))
            # File names follow the order of the publishers' lists; samples are sorted by class.
            first = {sample.path for sample in sorted(samples, key=_name)[:most]}
            samples = [sample for sample in samples if sample.path in first]
            made = image_dataset(
                source.name, samples, view, classes=self.card.classes, progress=progress
            )
            notes += [*found, *made.notes]
            domains += made.in_memory().domains
        return DomainDataset(
            "digits",
            tuple(domains),
            self.card.classes,
            self.card.regime,
            self.card.backbone,
            self.card.eval_every,
            notes=tuple(notes),
        )


def _name(sample: LabelledPath) -> str:
    return sample.path.name
