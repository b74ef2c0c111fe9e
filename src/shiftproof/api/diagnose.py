"""`diagnose`: measure the shifts between domains, and recommend what to train."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from shiftproof.api.load import Data, LoadOptions, checked_seed, load, name_of, names
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import write_atomically, write_json
from shiftproof.data import DomainDataset
from shiftproof.data.base import Progress, silent
from shiftproof.information import Shift
from shiftproof.models.weights_name import PRETRAINED
from shiftproof.reporting.diagnosis import About, diagnosis_html, diagnosis_json, diagnosis_text
from shiftproof.reporting.terminal import dataset_summary
from shiftproof.shift.advise import About as DataFacts, Advice, advise
from shiftproof.shift.diagnose import MOST_SAMPLES, check_most, diagnose as measure
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
        from shiftproof.reporting.diagnosis_picture import check_picture, diagnosis_picture

        path = Path(path)
        check_picture(path)
        write_atomically(path, diagnosis_picture(self.measured, self.about.name))
        return path

    def __repr__(self) -> str:
        states = ", ".join(f"{found.shift}={found.state!r}" for found in self.advice.findings)
        return f"ShiftReport({states}, algorithm={self.advice.choice.algorithm!r})"

    def _repr_html_(self) -> str:
        return diagnosis_html(self.measured, self.advice, self.about)


def diagnose(
    data: Data,
    *,
    domains: str | Sequence[str] = (),
    test_domains: str | Sequence[str] = (),
    freeze: bool = False,
    backbone: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    raw: bool = False,
    run: str | os.PathLike[str] | None = None,
    most: int = MOST_SAMPLES,
    seed: int = 0,
    data_seed: int | None = None,
    device: str = "auto",
    precision: str = "fp32",
    workers: int | None = None,
    progress: Progress = silent,
    **loading: Unpack[LoadOptions],
) -> ShiftReport:
    """Measure the shifts in the data, locate them, and recommend what to train.

    Nothing is downloaded unless features of a network are requested.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
        domains: the domains to compare; all by default.
        test_domains: domains to leave out, as in training.
        freeze: measure the features that a backbone computes from images.
        backbone: that backbone (implies `freeze`): resnet18, resnet50 or a timm name; by default
            the dataset's default backbone.
        weights: weights of that backbone (implies `freeze`): a file, `pretrained` or `random`.
        raw: measure photographs as 16 × 16 pixels.
        run: folder of a run trained on this data; also measures its representation and risks.
        most: maximum number of samples to measure.
        seed: seed of the subsampling, the folds and the permutations.
        data_seed: seed of generated data; `seed` by default.
        device: auto, cpu, cuda or mps.
        precision: precision of the features: fp32 or bf16.
        workers: threads that prefetch images; by default one per core, at most eight.
        progress: called with the name of the task, the amount done and the total.
    """
    made_by = checked_seed(seed, data_seed)
    trained = None if run is None else read_run(Path(run))
    if trained is not None:
        made_by = trained.data_seed
    held_out = names(test_domains)
    dataset = load(data, seed=made_by, progress=progress, **loading)
    chosen = choose_domains(dataset, names(domains), held_out)
    if trained is None:
        dataset = _only(dataset, chosen)
    network = _network(
        dataset,
        trained,
        freeze=freeze,
        backbone=backbone,
        weights=weights,
        precision=precision,
        raw=raw,
    )
    if network is not None:
        dataset = freeze_backbone(
            dataset, **network, device=device, workers=workers, progress=progress
        )
    if trained is None:
        there = every_sample(dataset, chosen)
    else:
        there = unseen_samples(dataset, chosen, trained)
    check_most(most, len(there))
    positions = some_of(there, most, seed)
    samples = collect(
        dataset,
        positions,
        side=RAW_SIDE if raw else None,
        workers=workers,
        progress=progress,
    )
    view = None
    if run is not None and trained is not None:
        view = view_of_run(
            Path(run),
            trained,
            dataset,
            positions,
            device=device,
            workers=workers,
            progress=progress,
        )
    found = measure(
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
    found = replace(found, left_out=sum(map(len, there.values())) - sum(found.sizes))
    notes = list(samples.notes)
    if raw:
        notes.append(f"measured on {samples.inputs}, not on the images that models are trained on")
    if trained is not None:
        notes.append("only samples that the run was not trained on are measured")
    summary = dataset_summary(_only(dataset, chosen))
    about = About(dataset.name, summary, name_of(data), samples.inputs, tuple(notes))
    given = DataFacts(samples.kind, samples.codes, samples.uneven)
    return ShiftReport(found, advise(found, held_out, given), about, dataset.frozen)


def _only(dataset: DomainDataset, domains: Sequence[str]) -> DomainDataset:
    """Return the dataset with only the given domains, without extras."""
    kept = tuple(domain for domain in dataset.domains if domain.name in domains)
    return replace(dataset, domains=kept, extras=())


def _network(
    dataset: DomainDataset,
    trained: RunConfig | None,
    *,
    freeze: bool,
    backbone: str | None,
    weights: str | os.PathLike[str] | None,
    precision: str,
    raw: bool,
) -> dict[str, str] | None:
    """Return the backbone, weights and precision of the features to measure, or None.

    A run that was trained on features is measured on the same features.
    """
    asked = freeze or bool(backbone or weights)
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
    if trained is not None and trained.frozen:
        given = {} if weights is None else {"weights": os.fspath(weights)}
        return {**trained.frozen, **given}
    if trained is not None and asked:
        raise InvalidValue(
            f"the run trained {trained.backbone} on the images, not on frozen features; use `raw`"
            " instead of `freeze`, `backbone` or `weights`"
        )
    if asked:
        return {
            "backbone": backbone or dataset.backbone,
            "weights": PRETRAINED if weights is None else os.fspath(weights),
            "precision": precision,
        }
    if dataset.regime in ("large-image", "huge-image") and not raw:
        raise InvalidValue(
            f"{dataset.name} holds photographs: give `weights` and `backbone` to measure the"
            f" features of a network, `freeze` to download {dataset.backbone}, or `raw` to measure"
            " coarse pixels"
        )
    return None
