"""Training callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


def _passed_on(name: str) -> Callable[..., None]:
    def call_all(self: CompositeObserver, *arguments: Any) -> None:
        for observer in self._observers:
            getattr(observer, name)(*arguments)

    return call_all


class CompositeObserver(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    progress = _passed_on("progress")
    loaded = _passed_on("loaded")
    begin = _passed_on("begin")
    step = _passed_on("step")
    record = _passed_on("record")
    note = _passed_on("note")
