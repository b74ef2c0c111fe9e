"""The errors a user can cause, as one tree.

::

    ShiftproofError
    ├── UnknownName      a name that is not registered; carries the nearest right ones
    ├── InvalidValue     a setting or hyper-parameter outside its rule
    ├── DataError        data that cannot be used as asked
    ├── RunConflict      a run folder that holds, or is held by, another run
    └── CheckpointError  a checkpoint that cannot be read or does not fit

Every message is one line: the rule, the value, and what to do.

**Parameters stand in backticks**, by their Python names: "`holdout` must lie in [0, 1), not 1.5",
"choose another `out`", "use `backbone="mlp"`".  The library never names an option of the command
line.  `shiftproof.cli.messages` turns each name, with its value, into the option of the command
that runs; the command line prints the message after ``error:`` and exits with code 2.  The same
holds for the notes of a run.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ShiftproofError(Exception):
    """Root of everything Shiftproof raises on purpose."""


class UnknownName(ShiftproofError):
    """A name outside a known list."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self._given = (kind, name, list(known))
        super().__init__(f"unknown {kind} {name!r}; {nearest(name, self._given[2])}")

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, str, list[str]]]:
        return UnknownName, self._given


class InvalidValue(ShiftproofError):
    """A setting or hyper-parameter that breaks its rule."""


class DataError(ShiftproofError):
    """Data that cannot be used as asked."""


class RunConflict(ShiftproofError):
    """A run folder that holds another run, or that another process is writing."""


class CheckpointError(ShiftproofError):
    """A checkpoint that cannot be read, or that belongs to another model."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name ``name`` was probably meant to be, or list them all.

    >>> nearest("imd", ["erm", "idm", "mmd"])
    "did you mean 'idm' or 'mmd'?"
    >>> nearest("xyzzy", ["erm", "idm"])
    'known: erm, idm'
    """
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    # Letters in the wrong order are the commonest slip, and difflib thinks little of them.
    swapped = [other for other in by_lower if sorted(other) == sorted(name.lower())]
    similar = difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.5)
    close = list(dict.fromkeys(swapped + similar))[:2]
    if close:
        return "did you mean " + " or ".join(repr(by_lower[match]) for match in close) + "?"
    return "known: " + (", ".join(known) or "none")
