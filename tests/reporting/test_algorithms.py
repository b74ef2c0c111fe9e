"""Descriptions of algorithms on the terminal."""

import io

import pytest
from _internals import paragraphs
from rich.console import Console

from shiftproof import ALGORITHMS


def printed(algorithm):
    console = Console(file=io.StringIO(), width=100)
    for part in paragraphs(algorithm):
        console.print(part)
    return console.file.getvalue()


@pytest.mark.parametrize("name", [name for name, _ in ALGORITHMS.items()])
def test_no_description_shows_the_source_of_a_table(name):
    assert "|--" not in printed(ALGORITHMS.get(name))


def test_a_table_keeps_its_rows():
    lines = [" ".join(line.split()) for line in printed(ALGORITHMS.get("adrmx")).splitlines()]
    assert "part loss" in lines
    assert "contrast λ_C [K(φ(x), y) + K(z, y)]" in lines
    lines = [" ".join(line.split()) for line in printed(ALGORITHMS.get("idm")).splitlines()]
    assert "averages start with the first step at the end of the warm-up" in lines
