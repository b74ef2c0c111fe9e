"""Derive domains from columns of a table: values, joined columns, periods of dates, or bins.

`by` says how the values of the domain column (the last one of several) become domains:

    year, quarter, month    dates, by calendar: 2021, 2021-Q3, 2021-07
    a whole number k        numbers, in k bins of about equally many rows
    value                   unchanged, even if they are many numbers

Without `by`, the values are the domains.  Many distinct numbers, some of them rare, are more likely
a measurement: they raise an error that asks for `by`.

With `pool_below`, domains with fewer rows than that are pooled into one.  If the pooled domain is
still too small, the smallest other domains are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import counted, quoted
from shiftproof.data.settings import PERIODS, VALUE
from shiftproof.data.tables.cell_types import Cells, cells_of

POOLED = "other"
JOINT = " · "
# More than MANY distinct numbers, a quarter of them in fewer than RARE rows, require `by`.
MANY, RARE = 20, 10


def domain_series(
    frame: pa.Table, table: str, columns: Sequence[str], by: str | int | None, pool_below: int = 0
) -> tuple[Cells, list[str]]:
    """Return the domain of each row (null if missing), and notes on pooled domains."""
    *others, last = columns
    if by is None and not others:
        _require_domains(cells_of(frame, last), table)
    if not others and by in (None, VALUE) and pool_below == 0:
        return cells_of(frame, last), []
    domains = _by(cells_of(frame, last), table, by)
    for column in reversed(others):
        domains = [
            None if text is None or name is None else f"{text}{JOINT}{name}"
            for text, name in zip(cells_of(frame, column).text_list, domains, strict=True)
        ]
    domains, notes = _pooled(domains, pool_below)
    return Cells(",".join(columns), pa.chunked_array([pa.array(domains, pa.string())])), notes


def _require_domains(column: Cells, table: str) -> None:
    """Raise if the domains are numbers that look like a measurement."""
    if column.holds != "number":
        return
    codes, names = column.texts
    rare = int((np.bincount(codes[codes >= 0]) < RARE).sum())
    if len(names) > MANY and 4 * rare >= len(names):
        ordered = sorted(names, key=float)
        raise DataError(
            f"the domain column {quoted(column.name)} of {table} has {len(names)} distinct"
            f" numbers, {ordered[0]} to {ordered[-1]}, {rare} of them in fewer than {RARE} rows;"
            ' set `by="value"` if each number is a domain, or `by=5` to group them into 5 bins'
        )


def _by(column: Cells, table: str, by: str | int | None) -> list[str | None]:
    where = f"the domain column {quoted(column.name)} of {table}"
    if by is None or by == VALUE:
        return column.text_list
    return _periods(column, where, str(by)) if by in PERIODS else _bins(column, where, int(by))


def _periods(column: Cells, where: str, by: str) -> list[str | None]:
    """Return the period of each date; dates with dots, such as 13.1.2020, start with the day."""
    import pandas as pd

    series = column.array.to_pandas()
    day_first = series.dropna().astype(str).str.match(r"\d{1,2}\.\d{1,2}\.\d{4}").any()
    dates = pd.to_datetime(series, errors="coerce", dayfirst=bool(day_first), format="mixed")
    wrong = dates.isna() & series.notna()
    if column.holds == "number" or wrong.any():
        row = 0 if column.holds == "number" else int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"{where} holds {quoted(str(series.iloc[row]))} in row {row + 1}, not a date;"
            f" `by={by!r}` is for dates"
        )
    if getattr(dates.dt, "tz", None) is not None:
        dates = dates.dt.tz_localize(None)
    period = dates.dt.to_period({"year": "Y", "quarter": "Q", "month": "M"}[by])
    # "2021Q3" is spelled 2021-Q3.
    return [
        None if text in ("NaT", "nan") else text.replace("Q", "-Q") for text in map(str, period)
    ]


def _bins(column: Cells, where: str, count: int) -> list[str | None]:
    """Return the bin of each number; edges are quantiles, so bins have about equally many rows."""
    if count < 2:
        raise InvalidValue(f"`by` must be at least 2 bins, not {count}")
    if column.holds != "number":
        raise DataError(f"{where} holds no numbers; `by={count}` is for numbers")
    numbers = column.numbers(where)
    there = numbers[~np.isnan(numbers)]
    edges = np.unique(np.quantile(there, np.linspace(0, 1, count + 1)))
    if len(edges) < 3:
        raise DataError(f"{where} has too few distinct numbers for {count} bins")
    ranges = [f"{low:g} to below {high:g}" for low, high in pairwise(edges[:-1])]
    names = [*ranges, f"{edges[-2]:g} to {edges[-1]:g}"]
    position = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
    missing = np.isnan(numbers)
    return [None if m else names[i] for m, i in zip(missing, position, strict=True)]


def _pooled(names: Sequence[str | None], pool_below: int) -> tuple[list[str | None], list[str]]:
    counts = Counter(name for name in names if name is not None)
    order = sorted(counts, key=lambda name: (counts[name], name))
    # The domains below the limit, and as many more as make the pooled one large enough.
    size = sum(counts[name] < pool_below for name in order)
    while 0 < size < len(order) and sum(counts[name] for name in order[:size]) < pool_below:
        size += 1
    if size < 2 or size == len(order):
        return list(names), []
    small = set(order[:size])
    pooled = f"{POOLED} ({len(small)})"
    rows = sum(counts[name] for name in small)
    note = (
        f"pooled the {len(small)} smallest domains ({counted(rows, 'row')}) as {pooled!r}, because"
        f" some have fewer than {pool_below} rows"
    )
    return [pooled if name in small else name for name in names], [note]
