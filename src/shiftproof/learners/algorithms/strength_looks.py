"""The automatic strength during training: when to look, and what each look changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from shiftproof.core.types import Batch
from shiftproof.learners.algorithms.auto_strength import Verdict, planned_looks
from shiftproof.learners.algorithms.concept_test import HeldOut
from shiftproof.learners.algorithms.erm import ERM
from shiftproof.learners.algorithms.idm_extensions import Extensions
from shiftproof.matching.match import CrossMatch
from shiftproof.matching.term import MatchingTerm

# Steps between updates of the slow weights, and their step size: the defaults of Lookahead.
EVERY, PART = 5, 0.5
# Interpolation coefficients of the weights evaluated between two looks.
BETWEEN = 0.25, 0.5, 0.75


class StrengthLooks(ERM):
    """Training with looks at held-out samples at planned steps, which keeps the best weights.

    With a strong penalty, plain gradient steps cycle: the features that the penalty removes come
    back.  So once matching starts, training uses Lookahead (Zhang et al., 2019; for games
    Chavdarova et al., 2021): every `EVERY` steps, slow weights move a share `PART` of the way to
    the current ones, which then continue from there.

    Between two looks, the weights may overshoot from using a feature to using its opposite.  So
    interpolations of the weights of the last look and the current ones are evaluated too.
    """

    extensions: Extensions
    terms: dict[str, MatchingTerm]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The weights where matching started, the best, those of the last look, and the slow ones.
        self._kept: dict[str, dict[str, Tensor]] = {}
        self._since = 0  # the update after which matching last started or restarted

    def looks(self, steps: int) -> tuple[int, ...]:
        """Return the steps after which the automatic strength is decided."""
        if self.extensions.strength is None:
            return ()
        return planned_looks(min(self.late_starts), steps)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Take one step, and apply Lookahead while domains are matched."""
        measured = super().update(batch)
        if (slow := self._kept.get("slow")) and (self.updates - self._since) % EVERY == 0:
            for name, value in self._weights().items():
                value.copy_(slow[name].lerp_(value, PART))
        return measured

    def look(self, outputs: Callable[[], HeldOut], *, last: bool) -> None:
        """Decide the automatic strength and keep the best weights; the last look restores them.

        The last look does not start matching.
        """
        strength = self.extensions.strength
        if strength is None or (last and not strength.matches):
            return
        held_out = outputs()
        verdict = strength.look(held_out)
        if verdict is Verdict.BEGIN:
            self._kept["start"] = self._kept["best"] = self._predicting(copied=True)
        if strength.matches:
            self._consider(held_out)
        if "last" in self._kept:
            present = self._predicting(copied=True)
            for share in BETWEEN:
                for name, value in self._weights().items():
                    value.copy_(torch.lerp(self._kept["last"][name], present[name], share))
                self._consider(outputs())
            self._restore(present)
        if verdict is Verdict.BACK:
            self._restore(self._kept["start"])
            for term in self.terms.values():
                if isinstance(term.match, CrossMatch):
                    term.match.forget()
        if verdict in (Verdict.BEGIN, Verdict.BACK):
            self.reset_optimizer()  # the old moments do not fit the new loss
            self._kept["slow"] = self._predicting(copied=True)
            self._since = self.updates
        if strength.matches:
            self._kept["last"] = self._predicting(copied=True)
        if last:
            self._restore(self._kept["best"])

    def _consider(self, held_out: HeldOut) -> None:
        """Keep the current weights if they are the best so far."""
        strength = self.extensions.strength
        if strength is not None and strength.is_best(held_out):
            self._kept["best"] = self._predicting(copied=True)

    def _restore(self, weights: dict[str, Tensor]) -> None:
        for name, value in self._predicting().items():
            value.copy_(weights[name])

    def _weights(self) -> dict[str, Tensor]:
        """Return the state that can be interpolated, which excludes batch counters."""
        return {k: v for k, v in self._predicting().items() if v.is_floating_point()}

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
            state["strength"] = self.extensions.strength.state() | {
                "kept": dict(self._kept),
                "since": self._since,
            }
        return state

    def load_training_state(self, state: dict[str, Any]) -> None:
        """Restore what `training_state` returned."""
        super().load_training_state(state)
        if self.extensions.strength is not None:
            self.extensions.strength.load(state["strength"])
            self._kept = dict(state["strength"]["kept"])
            self._since = state["strength"]["since"]
