"""`diagnose`: measure the shifts between domains, and recommend what to train."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shiftproof.api.load import Data, load, name_of
from shiftproof.api.settings import DiagnoseSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import write_atomically, write_json
from shiftproof.core.settings import keywords
from shiftproof.data import DomainDataset
from shiftproof.data.base import silent
from shiftproof.data.settings import DataSettings
from shiftproof.information import Shift
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.reporting.diagnosis import About, diagnosis_json, diagnosis_text
from shiftproof.reporting.terminal import dataset_summary
from shiftproof.shift.advise import Advice, advise
from shiftproof.shift.diagnose import check_most, diagnose as measure
from shiftproof.shift.diagnosis import Diagnosis
from shiftproof.shift.samples import choose_domains, collect, every_sample, some_of
from shiftproof.shift.trained_run import unseen_samples, view_of_run
from shiftproof.training.config import RunConfig
from shiftproof.training.features import freeze as freeze_backbone
from shiftproof.training.load_run import read_run

# With `raw`, photographs are measured as pixels at this height and width.
RAW_SIDE = 16


@dataclass(frozen=True)
class ShiftReport:
    """The measured shifts between domains, and a recommendation.

    `measured` holds all measurements, `advice` the findings in words and the recommendation, and
    `about` a description of the data.  `frozen` holds the backbone, weights and precision of the
    features, if images were measured by their features.
    """

    measured: Diagnosis
    advice: Advice
    about: About
    frozen: Mapping[str, str] = field(default_factory=dict)

    @property
    def shifts(self) -> Shift:
        """The covariate, label, concept, joint and within_label shift, with intervals."""
        return self.measured.shift

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return diagnosis_json(self.measured, self.advice, self.about)

    def to_text(self, width: int = 100, *, details: bool = False) -> str:
        """Return the report that the command line prints: at most 25 lines without `details`."""
        return diagnosis_text(self.measured, self.advice, self.about, width, details=details)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `to_dict` as JSON; the page of runs shows a `diagnosis.json` in their folder."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.to_dict())
        return path

    def picture(self, path: str | os.PathLike[str]) -> Path:
        """Draw domains, features and classes into a PNG file."""
        from shiftproof.reporting.pictures import check_picture, diagnosis_picture

        path = Path(path)
        check_picture(path)
        write_atomically(path, diagnosis_picture(self.measured, self.about.name))
        return path

    def __repr__(self) -> str:
        states = ", ".join(f"{finding.shift}={finding.state!r}" for finding in self.advice.findings)
        return f"ShiftReport({states}, algorithm={self.advice.choice.algorithm!r})"

    def _repr_html_(self) -> str:
        from shiftproof.reporting.page.render import diagnosis_html

        return diagnosis_html(self.about.title, self.to_dict())


@keywords(DiagnoseSettings)
def diagnose(data: Data, settings: DiagnoseSettings) -> ShiftReport:
    """Measure the shifts in the data, locate them, and recommend what to train.

    Nothing is downloaded unless features of a network are requested.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
    """
    device, workers = settings.device, settings.workers
    progress, held_out = settings.progress or silent, tuple(settings.test_domains)
    seed, most, raw = settings.seed, settings.most, settings.raw
    data_seed = seed if settings.data_seed is None else settings.data_seed
    trained = None
    if settings.run is not None:
        trained = read_run(Path(settings.run))
        data_seed = trained.data_seed
    dataset = load(data, seed=data_seed, progress=progress, **settings.given(DataSettings))
    chosen = choose_domains(dataset, settings.domains, held_out)
    if trained is None:
        dataset = _only(dataset, chosen)
    network = _network(dataset, trained, settings)
    if network is not None:
        dataset = freeze_backbone(
            dataset, **network, device=device, workers=workers, progress=progress
        )
    if trained is None:
        available = every_sample(dataset, chosen)
    else:
        available = unseen_samples(dataset, chosen, trained)
    check_most(most, len(available))  # before reading
    positions = some_of(available, most, seed)
    side = RAW_SIDE if raw else None
    samples = collect(dataset, positions, side=side, workers=workers, progress=progress)
    view, notes = None, list(samples.notes)
    if raw:
        notes.append(f"measured on {samples.inputs}, not on the images that models are trained on")
    if settings.run is not None and trained is not None:
        notes.append("only samples that the run was not trained on are measured")
        view = view_of_run(
            Path(settings.run), trained, dataset, positions,
            device=device, workers=workers, progress=progress,
        )  # fmt: skip
    measured = measure(
        samples.x,
        samples.y,
        samples.d,
        domains=samples.domains,
        classes=samples.classes,
        features=samples.features,
        seed=seed,
        most=most,
        model=view,
        progress=progress,
    )
    left_out = sum(map(len, available.values())) - sum(measured.sizes)
    measured = replace(measured, left_out=left_out)
    summary = dataset_summary(_only(dataset, chosen))
    about = About(dataset.name, summary, name_of(data), samples.inputs, tuple(notes))
    advice = advise(measured, held_out, samples.about)
    return ShiftReport(measured, advice, about, dataset.frozen)


def _only(dataset: DomainDataset, domains: Sequence[str]) -> DomainDataset:
    """Return the dataset with only the given domains, without extras."""
    chosen = tuple(domain for domain in dataset.domains if domain.name in domains)
    return replace(dataset, domains=chosen, extras=())


def _network(
    dataset: DomainDataset, trained: RunConfig | None, settings: DiagnoseSettings
) -> dict[str, str] | None:
    """Return the backbone, weights and precision of the features to measure, or None.

    A run that was trained on features is measured on the same features.
    """
    backbone, weights, raw = settings.backbone, settings.weights, settings.raw
    asked = settings.freeze or bool(backbone or weights)
    images = len(dataset.input_shape) == 3 and dataset.preparation is None
    if (asked or raw) and not images:
        raise InvalidValue(
            f"`raw`, `freeze`, `backbone` and `weights` are for images, and {dataset.name} has none"
        )
    if asked and raw:
        raise InvalidValue(
            "`raw` measures pixels, and `freeze`, `backbone` or `weights` the features of a"
            " network; give one of the two"
        )
    if trained is not None and trained.extractor:
        given = {} if weights is None else {"weights": str(weights)}
        return {**trained.extractor, **given}
    if trained is not None and asked:
        raise InvalidValue(
            f"the run trained {trained.backbone} on the images, not on frozen features; use `raw`"
            " instead of `freeze`, `backbone` or `weights`"
        )
    if asked:
        return {
            "backbone": backbone or dataset.backbone,
            "weights": str(weights or PRETRAINED),
            "precision": settings.precision,
        }
    if dataset.regime in ("large-image", "huge-image") and not raw:
        raise InvalidValue(
            f"{dataset.name} holds photographs: give `weights` and `backbone` to measure the"
            f" features of a network, `freeze` to download {dataset.backbone}, or `raw` to measure"
            " coarse pixels"
        )
    return None
