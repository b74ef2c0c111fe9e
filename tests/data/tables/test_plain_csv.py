"""pyarrow gives what Python's reader gives, and refuses the same."""

from __future__ import annotations

import numpy as np
import pytest
from _internals import DataError, data_read, read_table

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


def read(path, monkeypatch, plainly: bool) -> dict[str, list] | str:
    """Read a file in columns, or with Python's reader; return its cells or the error."""
    with monkeypatch.context() as patch:
        if not plainly:
            patch.setattr(data_read, "_plain_columns", lambda *_: None)
        try:
            return read_table(path).to_pydict()
        except DataError as error:
            return str(error)


def test_columns_give_what_records_give(tmp_path, monkeypatch):
    path, plain = tmp_path / "t.csv", 0
    whole = data_read._plain_columns

    def counted(*given):
        nonlocal plain
        columns = whole(*given)
        plain += columns is not None
        return columns

    monkeypatch.setattr(data_read, "_plain_columns", counted)
    for seed in range(600):
        path.write_bytes(some_file(seed))
        assert read(path, monkeypatch, True) == read(path, monkeypatch, False), seed
    assert plain > 300


@pytest.mark.parametrize("last", ["x", "9" * 19 + "0", "007", "0x10"])
def test_a_late_word_makes_all_of_the_column_words(tmp_path, last):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 500_000 + f"{last},3\n")
    table = read_table(path)
    assert table["a"].to_pylist() == ["1"] * 500_000 + [last]
    assert table["b"].to_pylist() == [2] * 500_000 + [3]


def test_a_field_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1," + "x" * 140_000 + "\n")
    with pytest.raises(DataError, match="line 2: a field of more than 131072 characters"):
        read_table(path)
