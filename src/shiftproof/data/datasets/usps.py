"""USPS: digits that the United States Postal Service scanned from envelopes."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from shiftproof.core.errors import DataError
from shiftproof.data.base import DATASETS, DatasetCard
from shiftproof.data.datasets.image_benchmark import DEEPEST, ImageBenchmark
from shiftproof.data.images.walk import folders_below

DIGITS = tuple("0123456789")
DOMAIN = "usps"
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
    card = DatasetCard(
        summary="digits scanned from envelopes, 16 × 16; one domain, part of digits",
        counts={DOMAIN: 9_298},
        classes=DIGITS,
        input_shape=(3, 28, 28),
        regime="small-image",
        backbone="mnist-cnn",
        eval_every=100,
        publication="Hull (1994), A Database for Handwritten Text Recognition Research; files as in"
        " LIBSVM, or Hastie, Tibshirani and Friedman (2009)",
        licence="none stated",
    )
    files = tuple(name for names in FILES for name in names)
    layout = "usps.bz2 and usps.t.bz2 (LIBSVM), or zip.train.gz and zip.test.gz"

    @classmethod
    def convert(cls, folders: Sequence[Path], out: Path) -> bool:
        """Write the digits of the files as PNG images into folders DOMAIN/CLASS."""
        places = [place for folder in folders for place in folders_below(folder, DEEPEST)]
        for names in FILES:
            found = [place / name for place in places for name in names if (place / name).is_file()]
            for file in found:
                _write(file, out / DOMAIN)
            if found:
                return True
        return False


def _write(file: Path, out: Path) -> None:
    written = 0
    for digit, pixels in _digits(file):
        folder = out / str(digit)
        folder.mkdir(parents=True, exist_ok=True)
        grey = np.rint((pixels + 1) / 2 * 255).clip(0, 255).astype(np.uint8)
        stem = file.name.rpartition(".")[0].replace(".", "-")
        Image.fromarray(grey.reshape(SIDE, SIDE)).save(folder / f"{stem}-{written:05d}.png")
        written += 1
    if not written:
        raise DataError(f"{file} holds no digits; download it again")


def _digits(file: Path) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each digit with its 256 numbers."""
    opened = bz2.open if file.suffix == ".bz2" else gzip.open
    try:
        with opened(file, "rt", encoding="ascii") as lines:
            for line in lines:
                if not line.strip():
                    continue
                first, *rest = line.split()
                if file.suffix == ".bz2":
                    pixels = np.full(SIDE * SIDE, -1.0)
                    for item in rest:
                        place, value = item.split(":")
                        if int(place) < 1:
                            raise ValueError(f"{place} is not a pixel index")
                        pixels[int(place) - 1] = float(value)
                    yield _checked(float(first) - 1, pixels), pixels
                else:
                    pixels = np.array(rest, dtype=float)
                    if pixels.shape != (SIDE * SIDE,):
                        raise ValueError(f"{len(pixels)} numbers in a line")
                    yield _checked(float(first), pixels), pixels
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise DataError(f"{file} is damaged or not a file of USPS ({error})") from error


def _checked(digit: float, pixels: np.ndarray) -> int:
    if digit not in range(10):
        raise ValueError(f"{digit:g} is not a digit")
    if np.isnan(pixels).any():
        raise ValueError("a pixel is not a number")
    return int(digit)
