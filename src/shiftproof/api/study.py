"""`study`: diagnose the data, estimate performance at a new domain, train a model, write a page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from shiftproof.api.diagnose import ShiftReport, diagnose
from shiftproof.api.load import Data, LoadOptions, checked_seed, load
from shiftproof.api.report import HELD_OUT, STUDY, report
from shiftproof.api.run_folders import as_folder, folder_of
from shiftproof.api.study_baselines import train_baselines
from shiftproof.api.study_diagnosis import inputs_of, kept_or
from shiftproof.api.study_evidence import evidence
from shiftproof.api.train import prepare, train
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.errors import DataError, RunConflict
from shiftproof.core.files import read_json, write_json
from shiftproof.core.standardize import checked_standardize
from shiftproof.core.types import checked_class_weight
from shiftproof.data import DomainDataset
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model_file import STUDY_RUN
from shiftproof.reporting.page.answer.lead import lead, noun_of
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import configure
from shiftproof.training.observers import Observer
from shiftproof.training.run_folder import START_OVER, changes

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator  # type: ignore[import-untyped]


@dataclass(frozen=True)
class Study:
    """The shifts in the data, the expectation for the next domain, and the model.

    `noun` is the word for a domain, such as "hospital".  `final` is the run on all domains and
    `page` the HTML page.  `page` is None if training was interrupted or diverged, and so is `final`
    if it was not reached; call `study` again to resume.
    """

    folder: Path
    diagnosis: ShiftReport
    held_out: LeaveOneOut
    final: TrainedRun | None = None
    page: Path | None = None
    noun: str = "domain"
    label_column: str = ""

    @property
    def runs(self) -> tuple[TrainedRun, ...]:
        """All runs: one for each held-out domain, and the run on all domains."""
        return (*self.held_out.runs, *([] if self.final is None else [self.final]))

    @property
    def answer(self) -> str:
        """What to expect at the next domain, in a sentence or two."""
        return lead(self.held_out.expected, self.noun, self.label_column)


def study(
    data: Data,
    algorithm: str | BaseEstimator | None = None,
    *,
    hparams: Mapping[str, object] | None = None,
    class_weight: str = "none",
    steps: int = 5001,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    freeze: bool = False,
    standardize: str = "none",
    private: bool = False,
    device: str = "auto",
    workers: int | None = None,
    observer: Observer | None = None,
    **loading: Unpack[LoadOptions],
) -> Study:
    """Diagnose, train with each domain held out in turn, train on all domains, and write a page.

    Called again with the same settings, resume.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
        algorithm: as in `train`: by default `best` for tables, arrays and features.
        hparams: hyper-parameters, as in `train`.
        class_weight: as in `train`; also used for the baselines.
        steps: number of updates, for algorithms that are trained in steps.
        seed: seed of all randomness.
        out: folder of the study; by default one in `runs`, named after the data.  The diagnosis and
            the runs are written to `held-out`, the baselines (logistic or ridge regression, and a
            random forest) to `baselines`, the model to `model`, and the page to `report.html`.
        backbone: as in `train`.
        weights: as in `train`.
        freeze: compute the features of all images with the backbone once, and train on them.
        standardize: as in `train`; the diagnosis measures the data before standardisation.
        private: leave rows, images and quantiles of the data out of the page, train private models
            as in `train`, and train no baselines.
        device: auto, cpu, cuda or mps.
        workers: threads that prefetch images; by default one per core, at most eight.
        observer: callbacks for progress, evaluations and notes; see `Observer`.
    """
    observer = observer or Observer()
    folder = folder_of(out)
    checked_standardize(standardize)
    checked_class_weight(class_weight)
    # Keep the raw data: frozen features have no images to show.
    raw = load(data, seed=checked_seed(seed, None), progress=observer.progress, **loading)
    dataset, algorithm, hparams, backbone = prepare(
        raw,
        algorithm,
        observer,
        hparams=hparams,
        seed=checked_seed(seed, None),
        backbone=backbone,
        weights=weights,
        freeze=freeze,
        device=device,
        precision="fp32",
        workers=workers,
        loading={},
    )
    if len(dataset.domains) < 3:
        raise DataError(
            f"a study holds out each domain in turn and needs at least 3 domains; {dataset.name}"
            f" has {len(dataset.domains)}"
        )
    folder = folder or Path("runs", f"study-{as_folder(dataset.name)}")
    settings: dict[str, Any] = {
        "hparams": hparams,
        "class_weight": class_weight,
        "steps": steps,
        "seed": seed,
        "backbone": backbone,
        "private": private,
        "device": device,
    }
    # Check the settings before the diagnosis, which takes time.
    config = configure(within_domains(dataset, standardize), algorithm, **settings)
    _refuse_another(folder, config)
    raw_pixels = _are_photographs(dataset)
    found = kept_or(
        folder,
        inputs_of(dataset, raw=raw_pixels, seed=seed),
        lambda: diagnose(
            dataset,
            raw=raw_pixels,
            seed=seed,
            device=device,
            workers=workers,
            progress=observer.progress,
        ),
    )
    found.save(folder / HELD_OUT / "diagnosis.json")
    settings |= {"standardize": standardize, "workers": workers, "observer": observer}
    held_out = train_each(dataset, algorithm, out=folder / HELD_OUT, **settings)
    columns = (noun_of(dataset.columns), dataset.columns.get("label", ""))
    if held_out.status != "finished":
        return Study(folder, found, held_out, None, None, *columns)
    final = train(dataset, algorithm, out=folder / STUDY_RUN, **settings)
    if final.status != "finished":
        return Study(folder, found, held_out, final, None, *columns)
    if not private:
        train_baselines(dataset, folder, seed, observer, class_weight)
    seconds = sum(run.seconds for run in (*held_out.runs, final))
    shown = evidence(dataset, raw, held_out, found, seconds, private=private)
    write_json(folder / STUDY, shown.to_json())
    page = report(folder).save(command="shiftproof study")
    return Study(folder, found, held_out, final, page, *columns)


def _refuse_another(folder: Path, asked: RunConfig) -> None:
    """Raise if the folder holds a different study, before its diagnosis is overwritten."""
    for path in sorted((folder / HELD_OUT).glob("*/config.json")):
        found = read_json(path, ("hparams",), START_OVER)
        other, wanted = ({**config, "test_domains": None} for config in (found, asked.to_json()))
        if said := changes(other, wanted):
            raise RunConflict(
                f"{folder} holds another study ({said}); choose another `out`, or delete it"
            )


def _are_photographs(dataset: DomainDataset) -> bool:
    return dataset.regime in ("large-image", "huge-image") and dataset.preparation is None
