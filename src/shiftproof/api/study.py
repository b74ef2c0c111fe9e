"""`study`: diagnose the data, estimate performance at a new domain, train a model, write a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shiftproof.api.diagnose import ShiftReport, diagnose
from shiftproof.api.held_out_runs import in_order
from shiftproof.api.load import Data, load
from shiftproof.api.report import report_of
from shiftproof.api.run_folders import HELD_OUT, STUDY, as_folder, folder_of
from shiftproof.api.settings import LearningSettings, StudySettings
from shiftproof.api.study_baselines import baselines
from shiftproof.api.study_evidence import evidence
from shiftproof.api.study_folder import BASELINES, inputs_of, refuse_another, stored_or_new
from shiftproof.api.train import check_metric, prepare, train
from shiftproof.api.train_each import LeaveOneOut, train_each
from shiftproof.api.trained_run import TrainedRun
from shiftproof.core.errors import DataError
from shiftproof.core.files import write_json
from shiftproof.core.settings import keywords
from shiftproof.data import DomainDataset
from shiftproof.data.settings import DataSettings
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model_file import STUDY_RUN
from shiftproof.reporting.page import HeldOut, Source
from shiftproof.reporting.page.sentences import lead, noun_of
from shiftproof.reporting.words import run_notes
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import Run, checked
from shiftproof.sweeps.standalone_runs import standalone_runs
from shiftproof.sweeps.stored_run import run_of
from shiftproof.training.configure import configure
from shiftproof.training.observers import Observer
from shiftproof.training.settings import ConfigureSettings


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


@keywords(StudySettings)
def study(data: Data, settings: StudySettings) -> Study:
    """Diagnose, train with each domain held out in turn, train on all domains, and write a page.

    Called again with the same settings, resume.  The diagnosis measures the data before
    standardisation.  The baselines are logistic or ridge regression and a random forest.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
    """
    observer = settings.observer or Observer()
    folder = folder_of(settings.out)
    seed = settings.seed_of_data
    # Keep the raw data: frozen features have no images to show.
    raw = load(data, seed=seed, progress=observer.progress, **settings.given(DataSettings))
    plain = dict.fromkeys(DataSettings.__dataclass_fields__)
    dataset, settings = prepare(raw, settings.but(**plain), observer)
    if len(dataset.domains) < 3:
        raise DataError(
            f"a study holds out each domain in turn and needs at least 3 domains; {dataset.name}"
            f" has {len(dataset.domains)}"
        )
    check_metric(dataset, settings.metric)
    folder = folder or Path("runs", f"study-{as_folder(dataset.name)}")
    # Check the settings before the diagnosis, which takes time.
    config = configure(
        within_domains(dataset, settings.standardize), **settings.given(ConfigureSettings)
    )
    refuse_another(folder, config)
    raw_pixels = _are_photographs(dataset)
    diagnosis = stored_or_new(
        folder,
        inputs_of(dataset, raw=raw_pixels, seed=settings.seed),
        lambda: diagnose(
            dataset,
            raw=raw_pixels,
            seed=settings.seed,
            device=settings.device,
            workers=settings.workers,
            progress=observer.progress,
        ),
    )
    training = settings.but(out=None, observer=observer).given(LearningSettings)
    held_out = train_each(dataset, out=folder / HELD_OUT, **training)
    columns = (noun_of(dataset.columns), dataset.columns.get("label", ""))
    if held_out.status != "finished":
        return Study(folder, diagnosis, held_out, None, None, *columns)
    final = train(dataset, out=folder / STUDY_RUN, **training)
    if final.status != "finished":
        return Study(folder, diagnosis, held_out, final, None, *columns)
    file = folder / BASELINES
    options = (settings.seed, observer.progress, settings.class_weight)
    others = {} if settings.private else baselines(dataset, file, *options)
    seconds = sum(run.seconds for run in (*held_out.runs, final))
    described = evidence(dataset, raw, held_out, diagnosis, seconds, private=settings.private)
    write_json(folder / STUDY, described.to_json())
    runs = outcomes_of(held_out.runs)
    title = f"{algorithm_title(config.algorithm)} on {dataset_title(runs[0].dataset)}"
    expected = replace(held_out.expected, outputs=in_order(held_out.outputs))
    source = Source(
        [str(folder / HELD_OUT)],
        diagnoses=[diagnosis.to_dict()],
        notes=run_notes(runs),
        held_out=[HeldOut(title, expected, settings.seed, 1, dataset.columns)],
        baselines=others,
        evidence=described,
    )
    report = report_of(runs, (folder / HELD_OUT,), metric=settings.metric, source=source)
    page = report.save(command="shiftproof study")
    return Study(folder, diagnosis, held_out, final, page, *columns)


def outcomes_of(runs: Sequence[TrainedRun]) -> list[Run]:
    """Return trained runs as a report reads them from their folders."""
    stored = [
        run_of(r.folder, {}, r.config.to_json(), r.records, r.status, r.seconds, r.environment)
        for r in runs
    ]
    return checked(standalone_runs(stored))


def _are_photographs(dataset: DomainDataset) -> bool:
    return dataset.regime in ("large-image", "huge-image") and dataset.preparation is None
