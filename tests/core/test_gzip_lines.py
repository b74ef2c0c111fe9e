"""Gzip bombs and files without end are noticed before they fill the memory."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from _internals import (
    DataError,
    core_gzip_lines as module,
    data_read,
    gzip_lines,
    read_json,
    read_sweep,
    read_table,
)

from shiftproof import TrainedModel


def bomb(path, block, times):
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(block)
    return path


def test_lines_of_an_honest_file(tmp_path):
    rows = [f"{number:.6f}\n".encode() for number in np.random.default_rng(0).normal(size=999)]
    path = bomb(tmp_path / "a.gz", b"".join(rows), 1)
    assert list(gzip_lines(path)) == rows


@pytest.mark.parametrize(
    ("read", "block", "times"),
    [
        (read_table, b"\0" * 2**20, 100),
        (read_table, b"123456,123456,123456,123456,123456,123456,12345\n" * 2**14, 20),
        (read_sweep, b"\0" * 2**20, 100),
        (read_sweep, b"[" * 2**20, 100),
    ],
)
def test_a_bomb_is_named_before_it_fills_the_memory(tmp_path, monkeypatch, read, block, times):
    """Of 16 to 100 MB, at most 2 MB are unpacked, which are 50 MB as rows of Python's texts."""
    monkeypatch.setattr(module, "ALWAYS_ALLOWED", 2**18)
    monkeypatch.setattr(module, "LONGEST_LINE", 2**18)
    path = bomb(tmp_path / "bomb.csv.gz", block, times)
    read_table(bomb(tmp_path / "small.csv.gz", b"a,b\n1,2\n", 1))  # imports what it needs
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"unpacks to more than .* may be a gzip bomb") as error:
            read(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert most < 64 * 2**20


def test_records_nested_too_deep_are_one_line(tmp_path):
    path = bomb(tmp_path / "runs.jsonl.gz", b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 1)
    with pytest.raises(DataError, match="is not a readable file of runs"):
        read_sweep(path)


def test_a_name_with_a_line_separator_does_not_split_a_record(tmp_path):
    line = json.dumps({"format": 2, "dataset": "a\u2028b"}, ensure_ascii=False)
    path = bomb(tmp_path / "runs.jsonl.gz", line.encode(), 1)
    with pytest.raises(DataError, match="line 1 is not a run of a sweep"):
        read_sweep(path)


@pytest.fixture
def endless(tmp_path):
    """A file of 2^40 zero bytes that takes no place on the disk."""
    path = tmp_path / "endless.csv"
    path.touch()
    try:
        os.truncate(path, 2**40)
    except OSError as error:
        pytest.skip(f"the disk has no files with holes ({error})")
    return path


def test_a_line_without_end_is_named_before_it_fills_the_memory(endless, monkeypatch):
    monkeypatch.setattr(data_read, "LONGEST_LINE", 2**20)
    with pytest.raises(DataError, match=r"^endless\.csv has a line of more than 1 MiB"):
        read_table(endless)


def test_a_file_of_a_run_without_end_is_named(endless):
    with pytest.raises(DataError, match=r"endless\.csv has more than 1024 MiB: it is damaged"):
        read_json(endless)


def test_a_model_without_end_is_named(endless, monkeypatch):
    def refuse(path):  # as the system does, unless it promises memory that it does not have
        raise MemoryError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DataError, match=r"endless\.csv is larger than the free memory"):
        TrainedModel.load(endless)
