"""Watch a run in TensorBoard: an observer that writes every number of every record.

python -m pip install tensorboard
python examples/tensorboard_observer.py
tensorboard --logdir runs
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

import shiftproof


class TensorBoard(shiftproof.Observer):
    """Writes the records of a run to a folder; a resumed run replaces what it repeats."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, config: Any, step: int) -> None:
        """Open the file."""
        self.writer = SummaryWriter(str(self.folder), purge_step=step + 1 if step else None)

    def record(self, record: dict[str, Any]) -> None:
        """Write all numbers of a record under its step."""
        for name, value in numbers_of(record):
            self.writer.add_scalar(name, value, record["step"])
        self.writer.flush()


def numbers_of(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record with their paths, such as `accuracy/10%/in`."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from numbers_of(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            yield f"{prefix}{name}", float(value)


folder = Path("runs/watched")
run = shiftproof.train(
    "spirals",
    "erm",
    test_domains=["test"],
    steps=40,
    eval_every=10,
    out=folder,
    observer=TensorBoard(folder / "tensorboard"),
)
print(f"accuracy in the test domain: {run.metrics['accuracy']['test/in']:.0%}")
