"""Digits from three sources: MNIST, MNIST-M (over photographs) and USPS (from envelopes)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from shiftproof.core.errors import DataError
from shiftproof.core.space import hparam
from shiftproof.data.base import DATASETS, DatasetSource, DomainDataset, Progress, silent
from shiftproof.data.datasets.image_benchmark import (
    DEEPEST,
    ImageBenchmark,
    folder_with,
    listed_images,
)
from shiftproof.data.datasets.mnist import load_mnist, mnist_card
from shiftproof.data.domain import Domain
from shiftproof.data.images.files import ImageView, LabelledPath, image_dataset
from shiftproof.data.images.folder import find_images
from shiftproof.data.images.walk import folders_below
from shiftproof.data.library.base import Found, folder_of, local_copy

DIGITS = tuple("0123456789")
PARTS = ("mnist_m_train", "mnist_m_test")
BLENDED = "mnist_m"


@DATASETS.register("mnist-m")
class MNISTM(ImageBenchmark):
    """One domain, for `digits`: 59,001 images of the training list and 9,001 of the test list.

    The layout is that of the publishers' archive mnist_m.tar.gz: for each part, a folder of images
    and a list of file names and digits.
    """

    name = "mnist-m"
    card = mnist_card(
        summary="MNIST digits over patches of photographs; one domain, part of digits",
        counts={BLENDED: 68_002},
        classes=DIGITS,
        input_shape=(3, 28, 28),
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
            if root is None:
                continue
            file = root / f"{part}_labels.txt"
            for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), 1):
                image, _, digit = line.rpartition(" ")
                if digit not in DIGITS or not image or Path(image).name != image:
                    raise DataError(
                        f"line {number} of {file} is not a file name and a digit: {line[:60]!r}"
                    )
                path = root / part / image
                listed.append(LabelledPath(path, digit, BLENDED, f"{part}-{image}"))
        return listed_images(listed, cls.name, progress)


SCANNED = "usps"
SIDE = 16
# LIBSVM's files, and those of The Elements of Statistical Learning.
FILES = (("usps.bz2", "usps.t.bz2"), ("zip.train.gz", "zip.test.gz"))


@DATASETS.register("usps")
class USPS(ImageBenchmark):
    """One domain, for `digits`: 7,291 images of the training file and 2,007 of the test file.

    The files hold 256 numbers in [−1, 1] per digit.  The files of LIBSVM (usps.bz2 and usps.t.bz2,
    which torchvision reads too) contain `label place:value …`, where the label is the digit plus
    one; those of the book (zip.train.gz and zip.test.gz) contain the digit and all numbers.
    """

    name = "usps"
    card = mnist_card(
        summary="digits scanned from envelopes, 16 × 16; one domain, part of digits",
        counts={SCANNED: 9_298},
        classes=DIGITS,
        input_shape=(3, 28, 28),
        publication="Hull (1994), A Database for Handwritten Text Recognition Research; files as in"
        " LIBSVM, or Hastie, Tibshirani and Friedman (2009)",
        licence="none stated",
    )
    files = tuple(name for names in FILES for name in names)
    layout = "usps.bz2 and usps.t.bz2 (LIBSVM), or zip.train.gz and zip.test.gz"

    @classmethod
    def convert(cls, folders: Sequence[Path], out: Path) -> bool:
        """Write the digits of the files as PNG images into folders DOMAIN/CLASS."""
        inner = [path for folder in folders for path in folders_below(folder, DEEPEST)]
        for names in FILES:
            files = [path / name for path in inner for name in names if (path / name).is_file()]
            for file in files:
                _write(file, out / SCANNED)
            if files:
                return True
        return False


def _write(file: Path, out: Path) -> None:
    digits, pixels = _read(file)
    if not len(digits):
        raise DataError(f"{file} holds no digits; download it again")
    grey = np.rint((pixels + 1) / 2 * 255).clip(0, 255).astype(np.uint8).reshape(-1, SIDE, SIDE)
    stem = file.name.rpartition(".")[0].replace(".", "-")
    for number, (digit, image) in enumerate(zip(digits.astype(int), grey, strict=True)):
        folder = out / str(digit)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{stem}-{number:05d}.png")


def _read(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits [n] of a file and their numbers [n, 256]."""
    from sklearn.datasets import load_svmlight_file

    try:
        if file.suffix == ".bz2":
            sparse, labels = load_svmlight_file(str(file), n_features=SIDE**2, zero_based=False)
            stored = sparse.tocoo()
            pixels = np.full(sparse.shape, -1.0)
            pixels[stored.row, stored.col] = stored.data
            digits = labels - 1
        else:
            table = np.loadtxt(file, ndmin=2)
            digits, pixels = table[:, 0], table[:, 1:]
        if pixels.shape[1] != SIDE**2:
            raise ValueError(f"{pixels.shape[1]} numbers in a line")
        if np.isnan(pixels).any():
            raise ValueError("a pixel is not a number")
        if len(wrong := digits[~np.isin(digits, range(10))]):
            raise ValueError(f"{wrong[0]:g} is not a digit")
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise DataError(f"{file} is damaged or not a file of USPS ({error})") from error
    return digits, pixels


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
        classes=DIGITS,
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
            samples, left_out = find_images(folder_of(source.name))
            # File names follow the order of the publishers' lists; samples are sorted by class.
            paths = sorted((sample.path for sample in samples), key=lambda path: path.name)
            first = set(paths[:most])
            samples = [sample for sample in samples if sample.path in first]
            dataset = image_dataset(
                source.name, samples, view, classes=self.card.classes, progress=progress
            )
            notes += [*left_out, *dataset.notes]
            domains += dataset.in_memory().domains
        return replace(self.card.dataset("digits", domains), notes=tuple(notes))
