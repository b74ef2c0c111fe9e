"""The records of a run for TensorBoard: losses, and accuracy and risk of every evaluated set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from shiftproof.core.errors import InvalidValue
from shiftproof.training.config import RunConfig
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"


class TensorBoard(Observer):
    """Write every record of a run to `tensorboard` in its folder.

    A resumed run purges the records that it will write again.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InvalidValue(
                "`tensorboard` needs another package; run pip install 'shiftproof[tensorboard]'"
            ) from error
        self._new = SummaryWriter
        self._folder = folder / FOLDER
        self._writer: SummaryWriter | None = None
        self._last = 0

    def begin(self, config: RunConfig, step: int) -> None:
        """Open the file."""
        purge = step + 1 if step else None
        self._writer = self._new(str(self._folder), purge_step=purge)
        self._last = config.steps

    def record(self, record: Record) -> None:
        """Write all numbers of a record under its step, and flush them."""
        if self._writer is None:
            return
        for name, value in numbers_of(record):
            self._writer.add_scalar(name, value, record["step"])
        self._writer.flush()
        if record["step"] == self._last:
            self._writer.close()


def numbers_of(record: Record, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record with their paths.

    >>> list(numbers_of({"step": 1, "loss": 0.5, "accuracy": {"va/out": 0.7}}))
    [('loss', 0.5), ('accuracy/va/out', 0.7)]
    """
    for name, value in record.items():
        if isinstance(value, dict):
            yield from numbers_of(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and name != "step":
            yield f"{prefix}{name}", float(value)
