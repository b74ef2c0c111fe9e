"""Vectors in tables, such as embeddings: one column per component.

The components of `embedding` are the columns `embedding[0]`, `embedding[1]`, ….  A Parquet list
column or an array [rows, k] becomes such columns; a file may also contain them directly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, quoted

# Longer vectors are images or texts, which a network should embed first.
MOST_COMPONENTS = 65_536

_COMPONENT = re.compile(r"(?P<vector>.+)\[(?P<position>0|[1-9][0-9]{0,5})\]")


def component_names(vector: str, width: int) -> list[str]:
    """Return the names of a vector's columns.

    >>> component_names("clip", 2)
    ['clip[0]', 'clip[1]']
    """
    return [f"{vector}[{position}]" for position in range(width)]


def vectors_in(columns: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each vector, in order; components with a gap are not a vector.

    >>> vectors_in(["age", "clip[0]", "clip[1]", "lone[3]"])
    {'clip': ['clip[0]', 'clip[1]']}
    """
    places: dict[str, set[int]] = {}
    for column in columns:
        if match := _COMPONENT.fullmatch(column):
            places.setdefault(match["vector"], set()).add(int(match["position"]))
    return {
        vector: component_names(vector, len(there))
        for vector, there in places.items()
        if max(there) == len(there) - 1
    }


def check_widths(trained: Sequence[str], given: Sequence[str], table: str) -> None:
    """Reject vectors that are longer or shorter than those with the same name in training.

    Without this check, the first components of a longer vector, which another network has
    computed, would be used.
    """
    vectors = vectors_in(given)
    for vector, parts in vectors_in(trained).items():
        width = len(vectors.get(vector, parts))
        if len(parts) > 1 and width != len(parts):
            raise DataError(
                f"{quoted(vector)} of {table} has vectors of {counted(width, 'number')}, but the"
                f" model takes {len(parts):,}; use the network that the model was trained with"
            )


def vector_columns(vector: str, block: np.ndarray, table: str) -> dict[str, pa.Array]:
    """Return vectors [rows, k] as one column per component, by name; NaN becomes null."""
    if not 0 < block.shape[1] <= MOST_COMPONENTS:
        raise DataError(
            f"{quoted(vector)} of {table} has vectors of {block.shape[1]:,} numbers; vectors must"
            f" have 1 to {MOST_COMPONENTS:,} numbers"
        )
    names = component_names(vector, block.shape[1])
    return {name: pa.array(block[:, i], from_pandas=True) for i, name in enumerate(names)}


def list_block(column: Any, name: str, table: str) -> np.ndarray | None:
    """Return a pyarrow list column as vectors [rows, k], or None if it holds no vectors.

    float32 is kept, because embeddings are large; most other numbers become float64.
    """
    kind = column.type
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_kind(kind) for is_kind in kinds):
        return None
    value = kind.value_type
    if not (pa.types.is_floating(value) or pa.types.is_integer(value)):
        return None
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), -1))
    where = f"column {quoted(name)} of {table}"
    for wrong, what in ((lengths < 0, "no vector"), (lengths == 0, "an empty vector")):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0]) + 1
            raise DataError(f"{where} has {what} in row {row}; leave out such rows")
    if len(lengths) == 0:
        return None
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise DataError(
            f"{where} has vectors of different lengths: {lengths[0]} numbers in row 1,"
            f" {lengths[odd[0]]} in row {odd[0] + 1}"
        )
    single = pa.types.is_float32(value) or pa.types.is_float16(value)
    block = np.empty((len(lengths), int(lengths[0])), np.float32 if single else np.float64)
    start = 0
    for chunk in column.chunks:  # one by one: combined, they may be too long for a pyarrow list
        numbers = chunk.flatten().to_numpy(zero_copy_only=False)
        block[start : start + len(chunk)] = numbers.reshape(len(chunk), -1)
        start += len(chunk)
    return block
