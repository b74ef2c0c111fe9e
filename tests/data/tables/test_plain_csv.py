"""pyarrow in pieces gives what Python's reader gives of the whole, and refuses the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from _internals import (
    DataError,
    data_csv_records as plain_csv,
    data_read_file as read_file,
    read_frame,
)

CELLS = (
    *("1", "-2", "+3", "4.5", ".5", "6.", "1e3", "007", "0", "-0", "0.0", "00", "1,5", "-,5"),
    *("", " ", "NA", "?", "none", "-", "nan", "missing", "inf", "-Infinity", "1e400", "0x10"),
    *("9" * 19, "9" * 400, "red", " Red ", "é", "\u00a0x\u00a0", "true", "2020-01-01", "1_000"),
    *('"a, b"', '"he said ""no"""', '""', '"1"', ' "b"', 'c"d', '"e" ', '"f\ng"', "x\ry", "\0"),
)
ENDS = ("\n", "\r\n", "\n\n", "\n \n", "\r", "")


def some_file(seed: int) -> bytes:
    """Return a small CSV file: columns of few kinds of cells, and now and then a fault."""
    rng = np.random.default_rng(seed)
    delimiter = rng.choice([",", ",", ";", "\t"])
    width, rows = int(rng.integers(1, 5)), int(rng.integers(0, 9))
    # Faults are the last of the cells and of the ends: few columns and few files have any.
    kinds = [rng.choice(CELLS[: rng.choice([14, 26, 35, len(CELLS)])], 3) for _ in range(width)]
    end = rng.choice(ENDS[: rng.choice([2, 2, 3, len(ENDS)])])
    lines = [delimiter.join(f"c{place}" for place in range(width))]
    for _ in range(rows):
        cells = [str(rng.choice(kind)) for kind in kinds]
        lines.append(delimiter.join(cells[: width - int(rng.random() < 0.02)]))
    start = "\ufeff" if rng.random() < 0.1 else ""
    text = (start + end.join(lines) + end * int(rng.random() < 0.7)).encode()
    return text + b"\xff" * int(rng.random() < 0.02)


def read(path, pieces: int | None, monkeypatch) -> pd.DataFrame | str:
    def refuse(*given):
        raise plain_csv.NotPlain

    with monkeypatch.context() as patch:
        if pieces is None:
            patch.setattr(read_file, "plain_pieces", refuse)
        else:
            patch.setattr(plain_csv, "LINES_AT_ONCE", pieces)
        try:
            return read_frame(path)
        except DataError as error:
            return str(error)


def test_pieces_give_what_the_whole_gives(tmp_path, monkeypatch):
    path, plain = tmp_path / "t.csv", 0
    split = plain_csv._split

    def counted(*given):
        nonlocal plain
        plain += 1
        return split(*given)

    monkeypatch.setattr(plain_csv, "_split", counted)
    for seed in range(300):
        path.write_bytes(some_file(seed))
        expected = read(path, None, monkeypatch)
        for pieces in (2, 50_000):
            found = read(path, pieces, monkeypatch)
            if isinstance(expected, str):
                assert found == expected, seed
            else:
                assert isinstance(found, pd.DataFrame), (seed, found)
                pd.testing.assert_frame_equal(found, expected, obj=f"file {seed}")
    assert plain > 300


@pytest.mark.parametrize("last", ["x", "9" * 19 + "0", "007"])
def test_a_late_word_makes_all_of_the_column_words(tmp_path, monkeypatch, last):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 9 + f"{last},3\n")
    monkeypatch.setattr(plain_csv, "LINES_AT_ONCE", 4)
    frame = read_frame(path)
    assert frame["a"].tolist() == ["1"] * 9 + [last]
    assert frame["b"].tolist() == [2] * 9 + [3]


def test_a_field_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1," + "x" * 140_000 + "\n")
    with pytest.raises(DataError, match="line 2: a field of more than 131072 characters"):
        read_frame(path)
