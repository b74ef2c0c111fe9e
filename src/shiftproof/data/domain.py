"""Samples of one domain: inputs as a tensor, or read from files when needed, and labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError
from shiftproof.core.types import REGRESSION, Kind


class LazyInputs(ABC):
    """Inputs that are read when they are needed, such as image files.

    `shape` is the shape of all inputs as one tensor, [n, …].  Reading depends on the arguments
    only, and several threads may read at once.
    """

    shape: tuple[int, ...]

    @abstractmethod
    def read(self, index: np.ndarray) -> Tensor:
        """Return the inputs at `index` as in evaluation."""

    @abstractmethod
    def draw(self, index: np.ndarray, seeds: np.ndarray) -> Tensor:
        """Return the inputs at `index` as in training: augmented, each with its seed (uint64)."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of the content; it does not depend on where the files are."""

    @abstractmethod
    def without_augmentation(self) -> LazyInputs:
        """Return inputs that look the same in training and in evaluation."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The memory that all inputs take."""

    @abstractmethod
    def in_memory(self) -> LazyInputs:
        """Return the same inputs, read into memory."""

    def __len__(self) -> int:
        return self.shape[0]


@dataclass(frozen=True)
class Domain:
    """Samples that share one distribution.

    `x` [n, …] is a tensor, uint8 (scaled to [0, 1] when used) or floating point, or lazy;
    `y` [n] is int64 where labels are classes, and float64 where they are numbers, of several
    targets [n, targets].  `weight` [n], float64, says how much each sample counts in training, if
    they do not count alike.
    """

    name: str
    x: Tensor | LazyInputs
    y: Tensor
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(
                f"domain {self.name!r} has {len(self.x)} samples but {len(self.y)} labels"
            )
        if self.weight is not None and len(self.weight) != len(self.y):
            raise DataError(
                f"domain {self.name!r} has {len(self.y)} samples but {len(self.weight)} weights"
            )
        if len(self.y) == 0:
            raise DataError(f"domain {self.name!r} is empty")

    def __len__(self) -> int:
        return len(self.y)

    def require(self, kind: Kind) -> None:
        """Raise unless the labels are classes, or numbers, as `kind` says."""
        if self.y.is_floating_point() != (kind == REGRESSION):
            sort = "numbers" if kind == REGRESSION else "classes"
            raise DataError(
                f"the labels of domain {self.name!r} must be {sort}, not {self.y.dtype}"
            )

    @property
    def is_lazy(self) -> bool:
        """Whether the inputs are read when they are needed."""
        return isinstance(self.x, LazyInputs)

    def stored(self, index: np.ndarray, seeds: np.ndarray | None = None) -> Tensor:
        """Return the inputs at `index` as they are stored.

        With `seeds`, one for each, lazy inputs are augmented as in training.
        """
        if isinstance(self.x, LazyInputs):
            return self.x.read(index) if seeds is None else self.x.draw(index, seeds)
        return self.x[torch.from_numpy(index).to(self.x.device)]

    def inputs(self, index: np.ndarray) -> Tensor:
        """Return the samples at `index` as float32."""
        return as_numbers(self.stored(index))

    def labels(self, index: np.ndarray) -> Tensor:
        """Return the labels at `index`."""
        return self.y[torch.from_numpy(index).to(self.y.device)]

    def to(self, device: torch.device) -> Domain:
        """Return the domain with its tensors on `device`; lazy inputs stay where they are."""
        x = self.x if isinstance(self.x, LazyInputs) else self.x.to(device)
        return replace(self, x=x, y=self.y.to(device))

    @cached_property
    def inputs_digest(self) -> bytes:
        """A hash of the inputs."""
        if isinstance(self.x, LazyInputs):
            return self.x.digest()
        digest = hashlib.sha256(repr((tuple(self.x.shape), str(self.x.dtype))).encode())
        digest.update(_bytes(self.x))
        return digest.digest()

    def digest(self) -> bytes:
        """Return a hash of name, inputs, labels and weights."""
        digest = hashlib.sha256(self.name.encode())
        digest.update(self.inputs_digest)
        digest.update(_bytes(self.y))
        if self.weight is not None:
            digest.update(b"weight")
            digest.update(_bytes(self.weight))
        return digest.digest()


def as_numbers(x: Tensor) -> Tensor:
    """Return stored inputs as float32; uint8 is scaled to [0, 1]."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.cpu().contiguous().numpy().data
