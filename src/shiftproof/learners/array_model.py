"""Fitted models that consist of named arrays, stored as they are and checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_origin, get_type_hints

import numpy as np

LARGEST = 1e100


class Part(NamedTuple):
    """One array of a model: its dtype, the names of its dimensions, and a bound of its entries.

    Dimensions of the same name have the same size.  Entries are in 0, …, size − 1 of the dimension
    `below`, if it is given.  Floating-point numbers are finite and at most `LARGEST`, so that no
    prediction overflows.
    """

    dtype: str
    shape: tuple[str, ...]
    below: str = ""


class ArrayModel:
    """A dataclass of arrays; the annotation of each holds its `Part`."""

    @classmethod
    @cache
    def parts(cls) -> Mapping[str, Part]:
        """Return what is declared of each array."""
        hints = get_type_hints(cls, include_extras=True).items()
        return {n: hint.__metadata__[0] for n, hint in hints if get_origin(hint) is Annotated}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, in the declared types."""
        return {
            name: np.ascontiguousarray(getattr(self, name), dtype=part.dtype)
            for name, part in self.parts().items()
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], **others: Any
    ) -> Self:
        """Return the model with these arrays, or raise `ValueError` if they are not valid.

        `sizes` are sizes of dimensions that the rest of the model determines, and `others` the
        fields that are not arrays.
        """
        known, parts = dict(sizes), cls.parts()
        if arrays.keys() != parts.keys():
            raise ValueError(f"a {cls.__name__} has {', '.join(parts)}, not {sorted(arrays)}")
        for name, part in parts.items():
            array = arrays[name]
            if array.dtype != np.dtype(part.dtype) or array.ndim != len(part.shape):
                raise ValueError(f"{name} must be {part.dtype} [{', '.join(part.shape)}]")
            for dimension, size in zip(part.shape, array.shape, strict=True):
                if known.setdefault(dimension, size) != size:
                    raise ValueError(f"{name} has {size} {dimension}, not {known[dimension]}")
            floating = np.issubdtype(array.dtype, np.floating)
            if floating and not (np.abs(array) <= np.float64(LARGEST)).all():
                raise ValueError(f"{name} holds values that are not finite, or above {LARGEST:g}")
        for name, part in parts.items():
            if part.below:
                within = (arrays[name] >= 0) & (arrays[name] < known[part.below])
                require(within.all(), f"{name} must be in 0, …, {known[part.below] - 1}")
        model = cls(**arrays, **others)
        model.check(known)
        return model

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless the arrays fit each other; `sizes` are all dimensions."""


def require(holds: Any, message: str) -> None:
    """Raise `ValueError` with the message unless a condition holds."""
    if not holds:
        raise ValueError(message)


T = TypeVar("T")


def under(prefix: str, tensors: Mapping[str, T]) -> dict[str, T]:
    """Return the tensors whose names begin with `prefix`, with the prefix removed."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
