"""The automatic strength while a run trains: when to look, and what follows from a look."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from shiftproof.learners.algorithms.auto_strength import Verdict, planned_looks
from shiftproof.learners.algorithms.concept_test import HeldOut
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.algorithms.idm_extensions import Extensions
from shiftproof.matching.cross import CrossMatch
from shiftproof.matching.term import MatchingTerm


class StrengthLooks(ERM):
    """Looks at held-out samples at planned steps, and keeps the weights worth going back to."""

    extensions: Extensions
    terms: dict[str, MatchingTerm]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Where matching began, and the best.
        self._kept: dict[str, dict[str, Tensor]] = {}

    def looks(self, steps: int) -> tuple[int, ...]:
        """Return when the automatic strength is decided."""
        if self.extensions.strength is None:
            return ()
        return planned_looks(min(self.late_starts), steps)

    def look(self, held_out: HeldOut, *, last: bool) -> None:
        """Decide on the automatic strength, and keep the best weights; the last look restores them.

        The last look comes too late for matching to begin.
        """
        strength = self.extensions.strength
        if strength is None or (last and not strength.matches):
            return
        verdict = strength.look(held_out)
        if verdict in (Verdict.BEGIN, Verdict.BEST):
            self._kept["best"] = self._predicting(copied=True)
        if verdict is Verdict.BEGIN:
            self._kept["start"] = self._kept["best"]
        if verdict is Verdict.BACK:
            self._restore("start")
            for term in self.terms.values():
                if isinstance(term.match, CrossMatch):
                    term.match.forget()
        if verdict in (Verdict.BEGIN, Verdict.BACK):
            self.reset_optimizer()  # the old moments do not fit the new loss
        if last:
            self._restore("best")

    def _restore(self, which: str) -> None:
        for name, value in self._predicting().items():
            value.copy_(self._kept[which][name])

    def _predicting(self, *, copied: bool = False) -> dict[str, Tensor]:
        """Return the weights that `predict` uses, by name, and their running statistics."""
        return {
            f"{part}.{name}": value.detach().clone() if copied else value.detach()
            for part in self.predicts_with
            for name, value in getattr(self, part).state_dict().items()
        }

    def training_state(self) -> dict[str, Any]:
        """Return everything that changes."""
        state = super().training_state()
        if self.extensions.strength is not None:
            state["strength"] = self.extensions.strength.state() | {"kept": dict(self._kept)}
        return state

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Restore what `training_state` returned."""
        super().load_training_state(state)
        if self.extensions.strength is not None:
            self.extensions.strength.load(state["strength"])
            self._kept = dict(state["strength"]["kept"])
