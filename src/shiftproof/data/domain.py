"""The samples of one domain: labels, and inputs in memory or read from files when needed.

Rows of tables are NumPy arrays.  Learners without a network use them directly; networks use the
same memory as tensors.  Torch takes seconds to import, so it is imported only when a tensor is
requested.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.types import REGRESSION, Kind

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class LazyInputs(ABC):
    """Inputs that are read when they are needed, such as image files.

    `shape` is the shape of all inputs as one tensor, [n, …].  Reading depends only on the arguments
    and is thread-safe.
    """

    shape: tuple[int, ...]

    @abstractmethod
    def read(self, index: np.ndarray) -> Tensor:
        """Return the inputs at `index` for evaluation, without augmentation."""

    @abstractmethod
    def draw(self, index: np.ndarray, seeds: np.ndarray) -> Tensor:
        """Return the inputs at `index` for training, each augmented with its own seed (uint64)."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of the content, independent of where the files are stored."""

    @abstractmethod
    def without_augmentation(self) -> LazyInputs:
        """Return the same inputs without augmentation in training."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of all inputs in memory, in bytes."""

    @abstractmethod
    def in_memory(self) -> LazyInputs:
        """Return the same inputs, read into memory."""

    def __len__(self) -> int:
        return self.shape[0]


class Given(NamedTuple):
    """The inputs, labels and weights of a domain as passed in: arrays or tensors."""

    x: Tensor | np.ndarray | LazyInputs
    y: Tensor | np.ndarray
    weight: Tensor | np.ndarray | None


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Domain:
    """Samples that share one distribution.

    `x` [n, …] is a tensor, uint8 (scaled to [0, 1] when used) or floating point, or lazy inputs.
    `y` [n] is int64 for classification and float64 for regression.  `weight` [n] holds float64
    sample weights for training; None means equal weights.

    Each may be passed as a tensor or a NumPy array.  The attributes `x`, `y` and `weight` are
    tensors, created without a copy on first use; `rows`, `label_array` and `weight_array` give
    NumPy arrays.
    """

    name: str
    x: Tensor | LazyInputs
    y: Tensor
    weight: Tensor | None

    def __init__(
        self,
        name: str,
        x: Tensor | np.ndarray | LazyInputs,
        y: Tensor | np.ndarray,
        weight: Tensor | np.ndarray | None = None,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "given", Given(x, y, weight))
        if len(x) != len(y):
            raise DataError(f"domain {name!r} has {len(x)} samples but {len(y)} labels")
        if weight is not None and len(weight) != len(y):
            raise DataError(f"domain {name!r} has {len(y)} samples but {len(weight)} weights")
        if len(y) == 0:
            raise DataError(f"domain {name!r} is empty")

    def __getattr__(self, name: str) -> Any:
        # Called only for missing attributes: create a tensor on first use.
        if name not in Given._fields:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        part = getattr(self.given, name)
        if isinstance(part, np.ndarray):
            import torch

            part = torch.from_numpy(np.require(part, requirements=["C", "W"]))
        object.__setattr__(self, name, part)
        return part

    def __len__(self) -> int:
        return len(self.given.y)

    def __repr__(self) -> str:
        return f"Domain({self.name!r}, {len(self)} samples of shape {list(self.shape[1:])})"

    def having(self, **changed: Any) -> Domain:
        """Return a copy of the domain with `x`, `y` or `weight` replaced."""
        return Domain(self.name, *self.given._replace(**changed))

    def require(self, kind: Kind) -> None:
        """Raise unless the labels match `kind`: classes or numbers."""
        y = self.given.y
        floats = y.dtype.kind == "f" if isinstance(y, np.ndarray) else y.is_floating_point()
        if floats != (kind == REGRESSION):
            sort = "numbers" if kind == REGRESSION else "classes"
            raise DataError(f"the labels of domain {self.name!r} must be {sort}, not {y.dtype}")

    @property
    def is_lazy(self) -> bool:
        """Whether the inputs are read only when needed."""
        return isinstance(self.given.x, LazyInputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all inputs, [n, …]."""
        return tuple(self.given.x.shape)

    @property
    def nbytes(self) -> int:
        """The size of the inputs in memory, in bytes; for lazy inputs, once they are read."""
        return int(self.given.x.nbytes)

    @cached_property
    def label_array(self) -> np.ndarray:
        """The labels as a NumPy array."""
        return as_array(self.given.y)

    @cached_property
    def weight_array(self) -> np.ndarray | None:
        """The weights as a NumPy array."""
        return None if self.given.weight is None else as_array(self.given.weight)

    def rows(self, index: np.ndarray | None = None) -> np.ndarray:
        """Return the inputs at `index` (default: all) as stored, as a NumPy array."""
        if isinstance(self.given.x, LazyInputs):
            return as_array(self.given.x.read(np.arange(len(self)) if index is None else index))
        whole = as_array(self.given.x)
        return whole if index is None else whole[index]

    def stored(self, index: np.ndarray, seeds: np.ndarray | None = None) -> Tensor:
        """Return the inputs at `index` as stored, as a tensor.

        With `seeds`, one per input, lazy inputs are augmented as in training.
        """
        if isinstance(self.x, LazyInputs):
            return self.x.read(index) if seeds is None else self.x.draw(index, seeds)
        return _taken(self.x, index)

    def inputs(self, index: np.ndarray) -> Tensor:
        """Return the inputs at `index` as a float32 tensor."""
        return as_numbers(self.stored(index))

    def labels(self, index: np.ndarray) -> Tensor:
        """Return the labels at `index` as a tensor."""
        return _taken(self.y, index)

    def to(self, device: torch.device) -> Domain:
        """Return the domain with its tensors on `device`; lazy inputs are not moved."""
        import torch

        parts = {name: getattr(self, name) for name in Given._fields}
        tensors = {name: part for name, part in parts.items() if isinstance(part, torch.Tensor)}
        return self.having(**{name: part.to(device) for name, part in tensors.items()})

    @cached_property
    def inputs_digest(self) -> bytes:
        """A hash of the inputs."""
        if isinstance(self.given.x, LazyInputs):
            return self.given.x.digest()
        x = self.rows()
        # Torch's dtype names, as in the first version, so that run identities stay the same.
        digest = hashlib.sha256(repr((x.shape, f"torch.{x.dtype}")).encode())
        digest.update(np.ascontiguousarray(x).data)
        return digest.digest()

    def digest(self) -> bytes:
        """Return a hash of the name, inputs, labels and weights."""
        digest = hashlib.sha256(self.name.encode())
        digest.update(self.inputs_digest)
        digest.update(np.ascontiguousarray(self.label_array).data)
        if self.weight_array is not None:
            digest.update(b"weight")
            digest.update(np.ascontiguousarray(self.weight_array).data)
        return digest.digest()


@runtime_checkable
class TensorLike(Protocol):
    """A torch tensor, recognised without importing torch."""

    def detach(self) -> Any:
        """Return the tensor detached from its graph."""

    def item(self) -> Any:
        """Return the only element as a Python number."""


def as_array(numbers: TensorLike | np.ndarray) -> np.ndarray:
    """Return numbers as a NumPy array; a tensor on the CPU is not copied."""
    if isinstance(numbers, np.ndarray):
        return numbers
    tensor = numbers.detach().cpu()
    try:
        array: np.ndarray = tensor.numpy()
    except TypeError:  # bfloat16, which NumPy does not support
        array = tensor.double().numpy()
    return array


def _taken(whole: Tensor, index: np.ndarray) -> Tensor:
    """Return the rows at `index`, which must not be negative."""
    import torch

    # Not whole[index], which copies element by element instead of row by row.
    return whole.index_select(0, torch.from_numpy(index).to(whole.device))


def as_numbers(x: Tensor) -> Tensor:
    """Return stored inputs as float32; uint8 is scaled to [0, 1]."""
    import torch

    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()


def as_float_rows(x: np.ndarray) -> np.ndarray:
    """Return stored inputs as float32, as `as_numbers` does for tensors."""
    with np.errstate(over="ignore"):  # numbers beyond float32 become infinite, as in torch
        rows: np.ndarray = x.astype(np.float32)
    return rows / np.float32(255) if x.dtype == np.uint8 else rows
