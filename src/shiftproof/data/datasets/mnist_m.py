"""MNIST-M: MNIST digits blended over patches of photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.core.errors import DataError
from shiftproof.data.base import DATASETS, DatasetCard, Progress
from shiftproof.data.datasets.image_benchmark import ImageBenchmark
from shiftproof.data.datasets.wilds import folder_with, listed_images
from shiftproof.data.images.files import LabelledPath
from shiftproof.data.library.base import Found

DIGITS = tuple("0123456789")
PARTS = ("mnist_m_train", "mnist_m_test")
DOMAIN = "mnist_m"


@DATASETS.register("mnist-m")
class MNISTM(ImageBenchmark):
    """One domain, for `digits`: 59,001 images of the training list and 9,001 of the test list.

    The layout is that of the publishers' archive mnist_m.tar.gz: for each part, a folder of images
    and a list of file names and digits.
    """

    name = "mnist-m"
    card = DatasetCard(
        summary="MNIST digits over patches of photographs; one domain, part of digits",
        counts={DOMAIN: 68_002},
        classes=DIGITS,
        input_shape=(3, 28, 28),
        regime="small-image",
        backbone="mnist-cnn",
        eval_every=100,
        publication="Ganin and Lempitsky (2015), Unsupervised Domain Adaptation by Backpropagation",
        licence="none stated; made from MNIST (CC BY-SA 3.0) and photographs of BSDS500",
    )
    layout = "folders mnist_m_train and mnist_m_test with mnist_m_train_labels.txt, …"

    @classmethod
    def collect(cls, folders: Sequence[Path], progress: Progress) -> Found:
        """Find the images in the two lists."""
        listed: list[LabelledPath] = []
        for part in PARTS:
            root = folder_with([f"{part}_labels.txt"], folders)
            if root is not None:
                listed += _listed(root, part)
        return listed_images(listed, cls.name, progress)


def _listed(root: Path, part: str) -> list[LabelledPath]:
    file = root / f"{part}_labels.txt"
    found = []
    for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), 1):
        image, _, digit = line.rpartition(" ")
        if digit not in DIGITS or not image or Path(image).name != image:
            raise DataError(
                f"line {number} of {file} is not a file name and a digit: {line[:60]!r}"
            )
        found.append(LabelledPath(root / part / image, digit, DOMAIN, f"{part}-{image}"))
    return found
