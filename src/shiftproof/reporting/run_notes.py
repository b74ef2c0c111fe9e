"""Notes on irregularities in the files of runs, one line per kind."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.core.text import counted
from shiftproof.sweeps.results import Run


def run_notes(runs: Iterable[Run]) -> list[str]:
    """Return a line for each kind of mark: how many runs have it, and the first of them."""
    found: dict[str, list[tuple[Run, int]]] = {}
    for run in runs:
        for mark in run.marks:
            found.setdefault(mark.text, []).append((run, mark.number))
    lines = []
    for text, marked in found.items():
        many = f"{total:,} in all; " if (total := sum(count for _, count in marked)) else ""
        first = "first: " if len(marked) > 1 else ""
        where = f"{many}{first}{marked[0][0].folder}"
        lines.append(f"{counted(len(marked), 'run')}: {text} ({where})")
    return lines
