"""Training callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shiftproof.data import DomainDataset
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record

if TYPE_CHECKING:
    from torch import Tensor


class Observer:
    """Callbacks of a run; each does nothing unless overridden."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Report the progress of loading data or another long task before or after training."""

    def loaded(self, dataset: DomainDataset) -> None:
        """Handle the loaded data; called before `begin`."""

    def begin(self, config: RunConfig, step: int) -> None:
        """Handle the start of a run, or its resumption after `step` updates."""

    def step(self, step: int, measured: Mapping[str, Tensor | float]) -> None:
        """Handle an update; reading `measured` waits for the device, so do it rarely."""

    def record(self, record: Record) -> None:
        """Handle a recorded evaluation."""

    def note(self, text: str) -> None:
        """Handle a note on something that the user may not expect, in one sentence."""
