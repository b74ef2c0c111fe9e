"""Find near-identical pictures: compressed, rescaled, or slightly lighter or darker copies.

Pictures are compared by their thumbnails (see `thumbnail`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet
from scipy.spatial import cKDTree

# Measured on 320 images of Office-Caltech10 and PACS, copies of them, and all pairs of the sets:
# nearly all copies are below both limits, and different pictures above at least one.
# REACH: distance between thumbnails normalised to mean zero and length one.
REACH = 0.15
# UNEXPLAINED: share of one thumbnail's contrast that a cubic tone curve of the other leaves over.
UNEXPLAINED = 0.10
# Thumbnails with a lower standard deviation, in grey levels, are too plain to compare.
FAINTEST = 3.0

_Floats = NDArray[np.float32]
_Bytes = NDArray[np.uint8]
_Index = NDArray[np.intp]
# Number of principal directions; a distance within them is never larger than the full distance.
_DIRECTIONS = 32
# Number of points whose neighbours, and of pairs whose thumbnails, are in memory at once.
_ROWS = 64
_CHUNK = 1024


def near_identical(thumbnails: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return pairs of near-identical pictures, enough to connect each group of them.

    Memory grows linearly with the number of pictures, and so does time, unless very many pictures
    are similar.
    """
    if not thumbnails:
        return []
    pixels = np.frombuffer(b"".join(thumbnails), np.uint8).reshape(len(thumbnails), -1)
    clear = np.flatnonzero(_in_blocks(lambda block: block.std(1), pixels) >= FAINTEST)
    if len(clear) < 2:
        return []
    pixels = pixels[clear]
    points = _coordinates(pixels)
    groups = DisjointSet(range(len(points)))
    pairs = []
    for first, second in _within_reach(points):
        for start in range(0, len(first), _CHUNK):
            these, those = first[start : start + _CHUNK], second[start : start + _CHUNK]
            apart = ~np.fromiter(map(groups.connected, these, those), bool, len(these))
            these, those = these[apart], those[apart]
            same = _same_picture(pixels[these], pixels[those])
            for one, other in zip(these[same].tolist(), those[same].tolist(), strict=True):
                if groups.merge(one, other):
                    pairs.append((int(clear[one]), int(clear[other])))
    return sorted(pairs)


def _in_blocks(function: Callable[[_Bytes], NDArray[Any]], pixels: _Bytes) -> NDArray[Any]:
    """Apply a row-wise function block by block, to bound the memory of intermediate values."""
    return np.concatenate([function(pixels[i : i + 8192]) for i in range(0, len(pixels), 8192)])


def _normalised(pixels: _Bytes) -> _Floats:
    centred: _Floats = pixels - pixels.mean(1, keepdims=True, dtype=np.float32)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    return centred


def _coordinates(pixels: _Bytes) -> _Floats:
    """Project normalised thumbnails onto the directions of largest variance."""
    sample = _normalised(pixels[:: len(pixels) // 20_000 + 1])
    _, directions = np.linalg.eigh(np.cov(sample, rowvar=False))
    directions = directions[:, -_DIRECTIONS:].astype(np.float32)
    return _in_blocks(lambda block: _normalised(block) @ directions, pixels)


def _within_reach(points: _Floats) -> Iterator[tuple[_Index, _Index]]:
    """Yield blocks of the pairs of points that are within reach."""
    tree = cKDTree(points)
    for start in range(0, len(points), _ROWS):
        near = tree.query_ball_point(points[start : start + _ROWS], REACH + 1e-5)  # rounding
        first = np.repeat(np.arange(start, start + len(near)), [len(others) for others in near])
        second = np.concatenate(near).astype(np.intp)
        once = first < second
        yield first[once], second[once]


def _same_picture(these: _Bytes, those: _Bytes) -> NDArray[np.bool_]:
    """Return for each row whether two thumbnails show the same picture."""
    same: NDArray[np.bool_]
    same = np.linalg.norm(_normalised(these) - _normalised(those), axis=1) <= REACH
    for source, target in ((these, those), (those, these)):
        left = np.flatnonzero(same)
        same[left] = _explains(source[left], target[left])
    return same


def _explains(source: _Bytes, target: _Bytes) -> NDArray[np.bool_]:
    """Return for each row whether a tone curve maps one thumbnail to the other.

    Exposure, contrast and clipping change all pixels of one grey level in the same way, so a copy
    is a function of its original, which a cubic approximates well enough.  The curve is fitted by
    least squares.
    """
    x = source - source.mean(1, keepdims=True)
    x /= np.abs(x).max(1, keepdims=True)
    y = target - target.mean(1, keepdims=True)
    powers = np.stack([np.ones_like(x), x, x**2, x**3], axis=1)  # [pairs, 4, pixels]
    products = powers @ powers.transpose(0, 2, 1)
    # A small ridge on the diagonal, because two grey levels do not determine a cubic.
    products += 1e-7 * x.shape[1] * np.eye(4)
    onto = powers @ y[:, :, None]
    explained = (np.linalg.solve(products, onto) * onto).sum((1, 2))
    total = (y**2).sum(1)
    same: NDArray[np.bool_] = total - explained <= UNEXPLAINED**2 * total
    return same
