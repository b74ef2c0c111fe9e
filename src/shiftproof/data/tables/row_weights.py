"""Check the training weights of rows that a user passes."""

from __future__ import annotations

import numpy as np

from shiftproof.core.errors import DataError


def checked_weights(given: np.ndarray, used: np.ndarray, where: str) -> np.ndarray:
    """Return the row weights [n], or raise if a weight in the mask `used` [n] is invalid.

    A weight is a finite number of at least 0, and at least one must be positive.  `where` names the
    weights in errors, which count rows from 1.

    >>> checked_weights(np.array([1.0, 0.0, 2.5]), np.array([True, True, True]), "`weight`")
    array([1. , 0. , 2.5])
    """
    rule = "weights must be finite and at least 0"
    for wrong, what in (
        (np.isnan(given), "is missing"),
        (np.isinf(given), "is infinite"),
        (given < 0, "is {value:g}"),
    ):
        rows = np.flatnonzero(wrong & used)
        if len(rows):
            said = what.format(value=given[rows[0]])
            raise DataError(f"{where} {said} in row {rows[0] + 1}; {rule}")
    if not given[used].any():
        raise DataError(f"{where} is zero in every row; at least one weight must be positive")
    return given
