"""What a run measured, wherever it was read: the input of selection, tables and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted, listed

# Runs and folders that a message names.
MOST_NAMED = 20
STATUSES = ("finished", "diverged", "running", "failed")


class OutputShift(NamedTuple):
    """How a model's outputs shift between the out parts of its training domains.

    In nats: I(Y;D|R) and I(R;D) of the outputs R, and by domain the entropy of the labels (None if
    not trained on); ``concept_p`` is the p-value of "no concept shift".  See
    `training.invariance`.
    """

    classes: int
    label_entropy: tuple[float | None, ...]
    concept: float
    covariate: float
    concept_p: float


class Evaluation(NamedTuple):
    """Accuracies after update ``step``: of each domain's in and out part; None if not evaluated.

    ``risk`` is that of the out parts, None where no risks were logged.  ``shift`` is None if it was
    not measured; ``untested`` says why it could not be.  ``extras`` are accuracies on the dataset's
    extra sets, ``losses`` the means of losses and penalties over the steps since the last
    evaluation.
    """

    step: int
    inside: tuple[float | None, ...]
    outside: tuple[float | None, ...]
    risk: tuple[float | None, ...] | None = None
    shift: OutputShift | None = None
    untested: str = ""
    extras: tuple[tuple[str, float], ...] = ()
    losses: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Origin:
    """How a run was made, as far as it is known: settings, time, versions, and why it failed."""

    config: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


class Mark(NamedTuple):
    """Something in the files of a run that its reader should know.

    ``number`` is that of the records or values concerned; 0 if it is the run as a whole.
    """

    text: str
    number: int = 0


class RunKey(NamedTuple):
    """Which run of a sweep it is.  ``test_domains`` are positions, in order."""

    dataset: str
    algorithm: str
    test_domains: tuple[int, ...]
    hparams_seed: int
    trial_seed: int


@dataclass(frozen=True)
class RunOutcome:
    """One run: which one it is, how it ended, and its accuracies by step.

    ``status`` is one of `STATUSES`; ``folder`` is where it was read.  A ``standalone`` run was made
    by `train`, not planned by a sweep.  ``marks`` say what was odd about its files.
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
    origin: Origin = field(default_factory=Origin, compare=False)
    standalone: bool = False
    marks: tuple[Mark, ...] = field(default=(), compare=False)

    @property
    def hparams(self) -> Mapping[str, Any]:
        """The hyper-parameters as its files name them; empty if they do not tell."""
        return self.origin.config.get("hparams") or {}

    @cached_property
    def key(self) -> RunKey:
        """What distinguishes the run from the others of its sweep."""
        return RunKey(
            self.dataset,
            self.algorithm,
            tuple(sorted(self.test_domains)),
            self.hparams_seed,
            self.trial_seed,
        )


def checked(outcomes: Iterable[RunOutcome], remedy: str = "") -> list[RunOutcome]:
    """Return the runs in order; duplicates, or two lists of domains, are an error.

    ``remedy`` is what else can be done about duplicates.
    """
    found: dict[RunKey, list[RunOutcome]] = {}
    first: dict[str, RunOutcome] = {}
    for outcome in outcomes:
        found.setdefault(outcome.key, []).append(outcome)
        other = first.setdefault(outcome.dataset, outcome)
        if other.domains != outcome.domains:
            raise DataError(
                f"{other.folder} and {outcome.folder} disagree on the domains of"
                f" {outcome.dataset}: {listed(other.domains)} and {listed(outcome.domains)}"
            )
    twice = [group for group in found.values() if len(group) > 1]
    if twice:
        raise DataError(_duplicates(twice, remedy))
    return [found[key][0] for key in sorted(found)]


def _duplicates(groups: Sequence[Sequence[RunOutcome]], remedy: str) -> str:
    """Name all folders of each run that occurs more than once, and what to do."""
    named = []
    for group in groups[:MOST_NAMED]:
        run = group[0]
        differ = any(other.hparams != run.hparams for other in group)
        named.append(
            f"{' and '.join(str(each.folder) for each in group[:MOST_NAMED])}"
            f"{f' and {len(group) - MOST_NAMED} more' * (len(group) > MOST_NAMED)}"
            f" are the same run ({run.algorithm} on {run.dataset}, test domains"
            f" {', '.join(run.domains[i] for i in run.test_domains)}, hyper-parameter seed"
            f" {run.hparams_seed}, trial {run.trial_seed}) with"
            f" {'different' if differ else 'equal'} hyper-parameters"
        )
    more = len(groups) - MOST_NAMED
    rest = [f"and {counted(more, 'other run')} more than once"] if more > 0 else []
    choices = " or ".join(filter(None, ("remove all but one of each", remedy)))
    return f"{'; '.join([*named, *rest])}: {choices}"


def positions(names: Sequence[str], domains: Sequence[str], where: object) -> tuple[int, ...]:
    """Return the positions of ``names`` among ``domains``, in order."""
    for name in names:
        if name not in domains:
            raise DataError(f"{where} holds out {name!r}, not one of {', '.join(domains)}")
    return tuple(sorted(list(domains).index(name) for name in names))
