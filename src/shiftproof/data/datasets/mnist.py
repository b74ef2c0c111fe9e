"""MNIST, shipped with the package."""

from __future__ import annotations

import hashlib
import lzma
from functools import lru_cache, partial
from importlib import resources
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.data.base import DatasetCard

mnist_card = partial(
    DatasetCard, regime="small-image", backbone="mnist-cnn", eval_every=100, licence="CC BY-SA 3.0"
)
DIGITS = 70_000
SHA256 = "e9b40985d011bd5a36195bdeb447f26b7824f3acd02e51a1636098d784d5fe98"


class Digits(NamedTuple):
    """Images [n, 28, 28] and labels [n], both uint8; the published training set comes first."""

    images: Tensor
    labels: Tensor

    def thinned(self, side: int) -> Digits:
        """Return the digits at 28 × 28 pixels, or at 14 × 14 by taking every second pixel."""
        step = 28 // side
        return Digits(self.images[:, ::step, ::step], self.labels)

    def take(self, index: np.ndarray) -> Digits:
        """Return the digits at `index`."""
        chosen = torch.from_numpy(index)
        return Digits(self.images[chosen], self.labels[chosen])


@lru_cache(maxsize=1)
def load_mnist() -> Digits:
    """Return all 70,000 digits; do not modify them, because all callers share the tensors."""
    asset = resources.files("shiftproof.data.datasets").joinpath("assets/mnist.xz").read_bytes()
    if hashlib.sha256(asset).hexdigest() != SHA256:
        raise DataError("the package's mnist.xz is damaged; reinstall shiftproof")
    contents = torch.frombuffer(bytearray(lzma.decompress(asset)), dtype=torch.uint8)
    pixels = DIGITS * 28 * 28
    return Digits(contents[:pixels].view(DIGITS, 28, 28), contents[pixels:])
