"""Studies of the paper: their runs, and the tables made from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from shiftproof.core.errors import InvalidValue, UnknownName
from shiftproof.paper.comparison import Comparison
from shiftproof.sweeps.jobs import Variant
from shiftproof.sweeps.presets import Preset
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.selection import Needs

Scale = Literal["full", "lite"]
# Datasets that need no download.
IN_THE_PACKAGE = ("colored-mnist", "rotated-mnist", "colored-mnist-irm")


class Block(NamedTuple):
    """Runs on one dataset: variants × held-out domains × draws × trials.

    ``test_domains`` are the domains to hold out; by default each in turn.
    """

    dataset: str
    variants: tuple[Variant, ...]
    needs: Needs
    draws: int
    trials: int
    test_domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """The part of a study to run; None means everything in the study at its scale.

    The fields are settings of `shiftproof reproduce`; ``data`` maps names of datasets to folders or
    files that replace them.
    """

    scale: Scale = "full"
    datasets: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None
    test_domains: tuple[str, ...] = ()
    n_hparams: int | None = None
    runs: int | None = None
    selection: tuple[str, ...] | None = None
    data: Mapping[str, str] = field(default_factory=dict)

    def of_datasets(self, known: Sequence[str]) -> list[str]:
        """Return the datasets of a study to run.

        At lite scale, the default is the datasets that need no download and those in ``data``.
        """
        for name in (*(self.datasets or ()), *self.data):
            if name not in known:
                raise UnknownName("dataset of this study", name, known)
        if self.datasets is not None:
            return [name for name in known if name in self.datasets]
        if self.scale == "full":
            return list(known)
        there = [name for name in known if name in IN_THE_PACKAGE or name in self.data]
        if not there:
            raise InvalidValue(
                f"this study uses {' and '.join(known)}, which are not in the package; give their"
                f' folders (`data={{"{known[-1]}": "FOLDER"}}`), or name them'
                f' (`datasets=["{known[-1]}"]`) to load them from the library'
            )
        return there

    def of_rows(
        self, rows: Sequence[Variant], printed: Mapping[str, str] | None = None
    ) -> tuple[Variant, ...]:
        """Return the rows of a study to run; ``printed`` maps the paper's names to ours.

        Case is ignored: the paper's tables print ERM, ours erm.
        """
        if self.rows is None:
            return tuple(rows)
        names = [row.name for row in rows]
        known = {name.lower(): name for name in names}
        known |= {other.lower(): name for other, name in (printed or {}).items()}
        for name in self.rows:
            if name.lower() not in known:
                raise UnknownName("row of this study", name, names)
        asked = {known[name.lower()] for name in self.rows}
        return tuple(row for row in rows if row.name in asked)

    def name_of(self, dataset: str) -> str:
        """Return the dataset's name in runs: its own, or that of its stand-in."""
        path = self.data.get(dataset)
        return dataset if path is None else Path(path).expanduser().absolute().name

    def stand_in_of(self, dataset: str) -> str | None:
        """Return the name of a dataset's stand-in, or None."""
        return self.name_of(dataset) if dataset in self.data else None


class Curves(NamedTuple):
    """Learning curves: values by name at each of ``steps``; ``switch`` is where penalties begin."""

    steps: tuple[int, ...]
    penalties: Mapping[str, tuple[float, ...]]
    accuracies: Mapping[str, tuple[float, ...]]
    switch: int


@dataclass(frozen=True)
class Findings:
    """What a study found: tables to compare with the paper's, and curves to draw."""

    comparisons: tuple[Comparison, ...] = ()
    curves: Curves | None = None

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return bool(self.comparisons) or self.curves is not None


class Study(ABC):
    """A table or figure of the paper that is made from runs.

    Studies with the same ``folder`` share their runs.
    """

    name: ClassVar[str]
    folder: ClassVar[str]

    @abstractmethod
    def preset(self, scale: Scale) -> Preset:
        """Return the size of the runs."""

    @abstractmethod
    def blocks(self, choice: Choice) -> list[Block]:
        """Return the runs to make."""

    @abstractmethod
    def find(self, outcomes: Sequence[Run], choice: Choice) -> Findings:
        """Return tables and curves from the existing runs; missing cells stay empty."""
