"""The values of a table's columns: whether they are numbers or text, and which are missing."""

from __future__ import annotations

import numbers
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, printable, quoted
from shiftproof.data.tables.column_names import one_line

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# Texts that stand for a missing value, in upper or lower case.
MISSING = frozenset(["", "na", "n/a", "#n/a", "#na", "<na>", "nan", "-nan", "null", "?"])
# Texts that stand for a missing value among numbers; among other texts they may be a category.
MISSING_AMONG_NUMBERS = frozenset(["none", "-", ".", "missing"])
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
INFINITE = r"[+-]?(?i:inf|infinity)"
# 007 is an identifier, not the number seven.
ZERO_PADDED = r"[+-]?0[0-9].*"
# NUMBER without zero-padded numbers.
NOT_PADDED = r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
FLAGS = {"false": 0.0, "true": 1.0}

_NUMBER = re.compile(f"{NUMBER}|{INFINITE}")
_ZERO_PADDED = re.compile(ZERO_PADDED, re.DOTALL)
_DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}([T ].*)?|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4}( .*)?"
)

SeenKind = Literal["number", "category", "date", "empty", "other"]


def text_of(value: object) -> str | None:
    """Return a cell as text, or None if it stands for a missing value.

    Runs of white space become one space, equal numbers get the same text, and unprintable
    characters are escaped, because the text may be displayed.

    >>> [text_of(value) for value in (1.0, "1.0", " north  wing", "007", True, "?", None)]
    ['1', '1', 'north wing', '007', 'True', None, None]
    """
    if value is None:  # missing text in pandas before version 3
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        if value != value:
            return None
        number = float(value)
        return str(int(number)) if abs(number) < 1e16 and number.is_integer() else str(value)
    text = printable(" ".join(str(value).split()))
    if text.lower() in MISSING:
        return None
    if len(text) > 300 or not _NUMBER.fullmatch(text) or _ZERO_PADDED.fullmatch(text):
        return text
    if text.lstrip("+-").isdigit():
        return str(int(text))
    return text_of(float(text)) if np.isfinite(float(text)) else text


def texts(series: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Return the code of each row's text (−1 if missing), and the distinct texts."""
    import pandas as pd

    codes, seen = pd.factorize(series)
    found: dict[str, int] = {}
    # The last entry, which the code −1 selects, is for missing values.
    position = np.full(len(seen) + 1, -1)
    for code, value in enumerate(seen):
        if (text := text_of(value)) is not None:
            position[code] = found.setdefault(text, len(found))
    return position[codes], list(found)


def values(series: pd.Series, where: str) -> np.ndarray:
    """Return a numeric column as float64, with NaN if missing; `where` names it in errors.

    An infinite number is an error: it comes from a failed computation, so neither it nor the mean
    of the other values can replace the true value.
    """
    if _holds_numbers(series.dtype):
        found: np.ndarray = series.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, names = texts(series)
        parsed = np.full(len(names) + 1, np.nan)
        for code, name in enumerate(names):
            if name.lower() in FLAGS:
                parsed[code] = FLAGS[name.lower()]
            elif _NUMBER.fullmatch(name):
                parsed[code] = float(name)
            elif name.lower() not in MISSING_AMONG_NUMBERS:
                row = int(np.flatnonzero(codes == code)[0]) + 1
                raise DataError(f"{where} holds {quoted(name)} in row {row}, not a number")
        found = parsed[codes]
    infinite = np.flatnonzero(np.isinf(found))
    if len(infinite):
        raise DataError(
            f"{where} has {counted(len(infinite), 'infinite value')}, the first in row"
            f" {infinite[0] + 1}; replace them, leave them empty or drop the column"
        )
    return found


def kind_of(series: pd.Series) -> SeenKind:
    """Return the kind of values in a column.

    Text is a category, even if it spells numbers, unless all values are true or false (the numbers
    1 and 0) or dates.
    """
    import pandas as pd
    from pandas.api import types  # type: ignore[import-untyped]

    dtype = series.dtype
    if series.isna().all():
        return "empty"
    if isinstance(dtype, pd.CategoricalDtype):
        return "category"
    if _holds_numbers(dtype):
        return "number"
    inferred = types.infer_dtype(series, skipna=True)
    if inferred in ("boolean", "integer", "floating", "mixed-integer-float", "decimal"):
        return "number"
    if inferred.startswith(("date", "time", "period")):
        return "date"
    if inferred not in ("string", "mixed", "mixed-integer"):
        return "other"
    if inferred != "string" and not all(
        isinstance(value, str | numbers.Real | np.bool_) for value in series.dropna()
    ):
        return "other"
    _, names = texts(series)
    if not names:
        return "empty"
    if all(name.lower() in FLAGS for name in names):
        return "number"
    return "date" if all(map(_DATE.fullmatch, names)) else "category"


def _holds_numbers(dtype: Any) -> bool:
    import pandas as pd
    from pandas.api import types

    if isinstance(dtype, pd.CategoricalDtype) or types.is_complex_dtype(dtype):
        return False
    return bool(types.is_bool_dtype(dtype) or types.is_numeric_dtype(dtype))


def named(frame: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the frame with a distinct one-line name for each column."""
    names = one_line(list(frame.columns))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{table} has two columns named {quoted(twice[0])}; rename one")
    return frame.set_axis(names, axis=1)
