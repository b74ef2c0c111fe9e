"""Results of runs from any source: the input of selection, tables and significance tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed
from shiftproof.training.records import Record

# The most runs and folders that a message names.
MOST_NAMED = 20
Status = Literal["finished", "diverged", "running", "failed"]


class OutputShift(NamedTuple):
    """How a model's outputs shift between the out parts of its training domains.

    ``concept`` and ``covariate`` are I(Y;D|R) and I(R;D) of the outputs R, and ``label_entropy`` is
    the entropy of each domain's labels (None if not trained on), all in nats.  ``concept_p`` is the
    p-value of "no concept shift".  See `training.invariance`.
    """

    classes: int
    label_entropy: tuple[float | None, ...]
    concept: float
    covariate: float
    concept_p: float


class Evaluation(NamedTuple):
    """Accuracies after update ``step`` on each domain's in and out part; None if not evaluated.

    ``risk`` holds the risks on the out parts, or None if no risks were logged.  ``shift`` is None
    if not measured; ``untested`` says why it could not be measured.  ``extras`` are accuracies on
    the dataset's extra sets.  ``losses`` are mean losses and penalties since the last evaluation.
    """

    step: int
    inside: tuple[float | None, ...]
    outside: tuple[float | None, ...]
    risk: tuple[float | None, ...] | None = None
    shift: OutputShift | None = None
    untested: str = ""
    extras: tuple[tuple[str, float], ...] = ()
    losses: tuple[tuple[str, float], ...] = ()


class Mark(NamedTuple):
    """Something in the files of a run that its reader should know.

    ``number`` counts the records or values concerned; 0 if the mark concerns the whole run.
    """

    text: str
    number: int = 0


class RunKey(NamedTuple):
    """The identity of a run within a sweep.  ``test_domains`` are sorted positions."""

    dataset: str
    algorithm: str
    test_domains: tuple[int, ...]
    hparams_seed: int
    trial_seed: int


@dataclass(frozen=True)
class Run:
    """One run: its place in a sweep, its settings, how it ended, and its accuracies by step.

    ``algorithm`` is the name of its row, and ``test_domains`` are positions among ``domains``.
    ``folder`` is where the run was read.  ``config``, ``seconds``, ``environment`` (versions) and
    ``failure`` say how it was made, as far as known; ``config`` is empty before its start.
    ``records`` are those that the ``evaluations`` were read from.  A ``standalone`` run was made by
    `train`, not planned by a sweep.  ``marks`` describe problems in its files.
    """

    dataset: str
    algorithm: str
    domains: tuple[str, ...]
    test_domains: tuple[int, ...]
    hparams_seed: int
    trial_seed: int
    status: str
    evaluations: Sequence[Evaluation]
    folder: Path | None = None
    config: Mapping[str, Any] = field(default_factory=dict, compare=False)
    seconds: float | None = field(default=None, compare=False)
    environment: Mapping[str, Any] = field(default_factory=dict, compare=False)
    failure: str = field(default="", compare=False)
    records: Sequence[Record] = field(default=(), compare=False, repr=False)
    standalone: bool = False
    marks: tuple[Mark, ...] = field(default=(), compare=False)

    @property
    def hparams(self) -> Mapping[str, Any]:
        """The hyper-parameters as named in the run's files; empty if unknown."""
        return self.config.get("hparams") or {}

    @cached_property
    def key(self) -> RunKey:
        """The key that identifies the run within its sweep."""
        tests = tuple(sorted(self.test_domains))
        return RunKey(self.dataset, self.algorithm, tests, self.hparams_seed, self.trial_seed)


def checked(outcomes: Iterable[Run], remedy: str = "") -> list[Run]:
    """Return the runs in order; raise if runs are duplicated or disagree on a dataset's domains.

    ``remedy`` is an additional suggestion for resolving duplicates.
    """
    by_key: dict[RunKey, list[Run]] = {}
    first: dict[str, Run] = {}
    for outcome in outcomes:
        by_key.setdefault(outcome.key, []).append(outcome)
        other = first.setdefault(outcome.dataset, outcome)
        if other.domains != outcome.domains:
            raise DataError(
                f"{other.folder} and {outcome.folder} disagree on the domains of"
                f" {outcome.dataset}: {listed(other.domains)} and {listed(outcome.domains)}"
            )
    twice = [group for group in by_key.values() if len(group) > 1]
    if twice:
        named = [_duplicate(group) for group in twice[:MOST_NAMED]]
        if len(twice) > MOST_NAMED:
            named.append(f"and {counted(len(twice) - MOST_NAMED, 'other run')} more than once")
        remedies = " or ".join(filter(None, ("remove all but one of each", remedy)))
        raise DataError(f"{'; '.join(named)}: {remedies}")
    return [by_key[key][0] for key in sorted(by_key)]


def _duplicate(group: Sequence[Run]) -> str:
    """Return a phrase that names the folders of a duplicated run."""
    run = group[0]
    differ = any(other.hparams != run.hparams for other in group)
    return (
        f"{' and '.join(str(other.folder) for other in group[:MOST_NAMED])}"
        f"{f' and {len(group) - MOST_NAMED} more' * (len(group) > MOST_NAMED)}"
        f" are the same run ({run.algorithm} on {run.dataset}, test domains"
        f" {', '.join(run.domains[i] for i in run.test_domains)}, hyper-parameter seed"
        f" {run.hparams_seed}, trial {run.trial_seed}) with"
        f" {'different' if differ else 'equal'} hyper-parameters"
    )


def positions(names: Sequence[str], domains: Sequence[str], where: object) -> tuple[int, ...]:
    """Return the positions of ``names`` among ``domains``, in order."""
    for name in names:
        if name not in domains:
            raise DataError(f"{where} holds out {name!r}, not one of {', '.join(domains)}")
    return tuple(sorted(list(domains).index(name) for name in names))
