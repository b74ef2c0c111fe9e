"""`study`: from the data to a model, what to expect of it at the next domain, and a page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from shiftproof.api.diagnose import ShiftReport, diagnose
from shiftproof.api.load import Data, LoadOptions, checked_seed
from shiftproof.api.report import report
from shiftproof.api.train import TrainedRun, as_folder, folder_of, prepare, train
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.core.durations import seconds_of
from shiftproof.core.errors import DataError
from shiftproof.data import DomainDataset
from shiftproof.data.within_domain import checked_standardize
from shiftproof.training.held_out import HeldOutScore
from shiftproof.training.observers import Observer

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]

# In the folder of a study: runs that hold out a domain each, and the run on all domains.
HELD_OUT, MODEL = "held-out", "model"


@dataclass(frozen=True)
class Study:
    """What shifts, what to expect at the next domain, and the model.

    `final` is trained on all domains and `page` tells everything; both are None if training was
    interrupted or diverged: call `study` again to resume.
    """

    folder: Path
    diagnosis: ShiftReport
    held_out: LeaveOneOut
    final: TrainedRun | None = None
    page: Path | None = None
    domain_column: str = "domain"

    @property
    def runs(self) -> tuple[TrainedRun, ...]:
        """All runs: those that hold out a domain, and the one that holds out none."""
        return (*self.held_out.runs, *([] if self.final is None else [self.final]))

    @property
    def answer(self) -> str:
        """What to expect at the next domain, in a sentence or two."""
        found = self.held_out.expected.score("accuracy")
        if found is None:
            return "One domain does not show what to expect at the next."
        low, high = found.interval
        scores = [each for each in self.held_out.scores if isinstance(each, HeldOutScore)]
        worse = [score.domain for score in scores if score.accuracy < score.commonest_class]
        beside = (
            f"In {len(worse)} of {len(scores)} held out in turn it is less than always giving the"
            f" commonest class ({', '.join(worse)})."
            if worse
            else f"In all {len(scores)} held out in turn it is at least what always giving the"
            " commonest class gets."
        )
        adapted = self.held_out.adaptation
        how = f" (adaptation: {adapted})" if adapted else ""
        return (
            f"At the next {self.domain_column}{how} expect {found.mean:.0%} right, and with"
            f" probability {found.level:.0%} between {low:.0%} and {high:.0%}. {beside}"
        )


def study(
    data: Data,
    algorithm: str | BaseEstimator | None = None,
    *,
    hparams: Mapping[str, object] | None = None,
    budget: str | float | None = None,
    steps: int = 5001,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    freeze: bool = False,
    standardize: str = "none",
    device: str = "auto",
    workers: int | None = None,
    observer: Observer | None = None,
    **loading: Unpack[LoadOptions],
) -> Study:
    """Diagnose, train with each domain held out in turn, train on all, and write a page.

    Called again with the same settings, it resumes.

    Args:
        data: what `load` takes; its keywords (`label`, `domain`, …) are taken here too.
        algorithm: as in `train`: by default `best` for tables, arrays and features.
        hparams: hyper-parameters, as in `train`.
        budget: time for `best` to try candidates in, for all runs together.
        steps: number of updates, of algorithms that are trained in steps.
        seed: seed of everything random.
        out: folder of the study; by default one in `runs`, named after the data.  It gets
            the diagnosis and the runs in `held-out`, the model in `model`, and `report.html`.
        backbone: as in `train`.
        weights: as in `train`.
        freeze: compute the features of all images with the backbone once, and train on them.
        standardize: as in `train`; the diagnosis is of the data as it is.
        device: auto, cpu, cuda or mps.
        workers: threads that read images ahead; by default one a core, at most eight.
        observer: told of progress, evaluations and notes; see `Observer`.
    """
    observer = observer or Observer()
    folder = folder_of(out)
    checked_standardize(standardize)
    dataset, hparams, backbone = prepare(
        data,
        observer,
        hparams=hparams,
        seed=checked_seed(seed, None),
        backbone=backbone,
        weights=weights,
        freeze=freeze,
        device=device,
        precision="fp32",
        workers=workers,
        loading=loading,
    )
    if len(dataset.domains) < 3:
        raise DataError(
            f"{dataset.name} has {len(dataset.domains)} domains, and a study holds out each in turn"
            " and compares the others: give at least 3"
        )
    each_budget, last_budget = _shared(budget, len(dataset.domains))
    folder = folder or Path("runs", f"study-{as_folder(dataset.name)}")
    found = diagnose(
        dataset,
        raw=_are_photographs(dataset),
        seed=seed,
        device=device,
        workers=workers,
        progress=observer.progress,
    )
    found.save(folder / HELD_OUT / "diagnosis.json")
    settings: dict[str, Any] = {
        "hparams": hparams,
        "steps": steps,
        "seed": seed,
        "backbone": backbone,
        "standardize": standardize,
        "device": device,
        "workers": workers,
        "observer": observer,
    }
    held_out = train_each(dataset, algorithm, budget=each_budget, out=folder / HELD_OUT, **settings)
    column = dataset.columns.get("domain", "domain")
    if held_out.status != "finished":
        return Study(folder, found, held_out, domain_column=column)
    final = train(dataset, algorithm, budget=last_budget, out=folder / MODEL, **settings)
    if final.status != "finished":
        return Study(folder, found, held_out, final, domain_column=column)
    page = report(folder / HELD_OUT).save(folder / "report.html", command="shiftproof study")
    return Study(folder, found, held_out, final, page, column)


def _are_photographs(dataset: DomainDataset) -> bool:
    return dataset.regime in ("large-image", "huge-image") and dataset.preparation is None


def _shared(budget: str | float | None, domains: int) -> tuple[float | None, float | None]:
    """Return the parts of a budget for the runs that hold out a domain, and for the last run."""
    if budget is None:
        return None, None
    a_run = seconds_of(budget, "budget") / (domains + 1)
    return domains * a_run, a_run
