"""The bounds of the paper, each a pure function of its quantities, in nats.

Each function returns a `Bound` (one number) or a `TailBound` (a probability for every gap, and a
gap for every probability), with the assumptions of its statement.  Where the paper is wrong, the
function states and uses the corrected form.  `docs/theorems.md` lists the function for each
statement of the paper.
"""

from __future__ import annotations

from shiftproof.theory.gaps import *  # noqa: F403
from shiftproof.theory.impossibility import *  # noqa: F403
from shiftproof.theory.shifts import *  # noqa: F403
from shiftproof.theory.statement import (
    STATEMENTS as STATEMENTS,
    Bound as Bound,
    TailBound as TailBound,
)

__all__ = sorted(
    name
    for name, value in vars().items()
    if name == "STATEMENTS" or getattr(value, "__module__", "").startswith(__name__)
)
