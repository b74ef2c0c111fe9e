"""Training callbacks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from shiftproof.data import DomainDataset
from shiftproof.training.config import RunConfig
from shiftproof.training.records import Record


class Observer:
    """Callbacks of a run; each does nothing unless overridden."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Part of the data is read, or of another long task before or after training is done."""

    def loaded(self, dataset: DomainDataset) -> None:
        """The data is read; called before `begin`."""

    def begin(self, config: RunConfig, step: int) -> None:
        """The run starts, or resumes after ``step`` updates."""

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """An update was made; reading ``measured`` waits for the device, so do it rarely."""

    def record(self, record: Record) -> None:
        """An evaluation was recorded."""

    def note(self, text: str) -> None:
        """Something that the user may not expect, in one sentence."""


class CompositeObserver(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def begin(self, config: RunConfig, step: int) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.begin(config, step)

    def step(self, step: int, measured: dict[str, Tensor]) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.step(step, measured)

    def record(self, record: Record) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.record(record)

    def note(self, text: str) -> None:
        """Pass it on."""
        for observer in self._observers:
            observer.note(text)
