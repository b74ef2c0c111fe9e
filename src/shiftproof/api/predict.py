"""`predict`: predict new samples with a trained model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out import held_out_in
from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import PredictSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import refuse_data_itself, write_atomically
from shiftproof.core.settings import keywords
from shiftproof.data.base import silent
from shiftproof.data.sample_request import SampleRequest
from shiftproof.inference.adaptation.label_shift import Adapted
from shiftproof.inference.conformal import checked_level, domain_sets, half_width
from shiftproof.inference.expected import Expected
from shiftproof.inference.model import TrainedModel
from shiftproof.metrics.outputs import of_classes, of_numbers
from shiftproof.metrics.regression import domains_needed
from shiftproof.reporting.predictions import (
    frame_bytes,
    numbers_frame,
    numbers_summary,
    predictions_frame,
    predictions_summary,
)

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class Predicted:
    """Predictions for new samples, with notes.

    `notes` are sentences about the data and the guarantees of sets and intervals.  `adapted`
    describes, for each site, how its probabilities were adapted, if `adapt` was given.
    """

    model: TrainedModel
    frame: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...] = ()
    adapted: Mapping[str, Adapted] = field(default_factory=dict, repr=False)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per sample.

        Columns: the row or path of the sample; the predicted class and the probability of each
        class, or the predicted number; the typicality (the share of held-out training samples that
        are at least as unusual); and whether the sample is far from every training domain, where a
        prediction is a guess.
        """
        return self.frame

    @property
    def summary(self) -> str:
        """Number of samples, predictions, and number of samples far from the training domains."""
        if self.model.target:
            return numbers_summary(self.frame)
        return predictions_summary(self.frame)

    def to_bytes(self, suffix: str = ".csv") -> bytes:
        """Return the table as the bytes of a `.csv` or `.parquet` file."""
        return frame_bytes(self.frame, suffix)

    def save(self, out: str | os.PathLike[str]) -> Path:
        """Write the table to a .csv or .parquet file and return its path."""
        path = checked_out(out)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.to_bytes(path.suffix))
        return path

    def _repr_html_(self) -> str:
        return str(self.frame.to_html(max_rows=20, index=False))


@keywords(PredictSettings)
def predict(
    model: TrainedModel | str | os.PathLike[str],
    data: pd.DataFrame | str | os.PathLike[str],
    settings: PredictSettings,
) -> Predicted:
    """Predict classes with probabilities, or numbers, and mark inputs unlike the training data.

    Args:
        model: a trained model, or the path of its run or file.
        data: inputs of the model, without labels: a data frame; the path of a table, an image
            folder, an image, a manifest or an array; or a dataset name.
    """
    sets, interval = settings.sets, settings.interval
    progress = settings.progress or silent
    check_asked(settings)
    held_out = None if settings.expected is None else held_out_in(settings.expected)
    trained = as_model(model, settings.device, trust=settings.trust)
    _check_model(trained, settings, held_out)
    parts = new_samples(
        trained,
        data,
        data_seed=settings.data_seed,
        progress=progress,
        **settings.given(SampleRequest),
    )
    notes = [note for part in parts for note in part.notes]
    given: Any = {"workers": settings.workers, "progress": progress}
    if trained.target:
        width = None
        if interval is not None:
            if held_out is None:
                width, domains = trained.half_width(interval), len(trained.domains)
            else:
                outputs = of_numbers(held_out.outputs, "`interval`")
                width, domains = half_width(list(outputs.values()), interval), len(outputs)
            if not width.promised:
                notes.append(_fewer("intervals", interval, domains, "the number"))
        numbers = [
            (part, trained.predict_numbers(part.inputs, sites=part.domains, **given))
            for part in parts
        ]
        frame = numbers_frame(numbers, None if width is None else width.half)
        return Predicted(trained, frame, tuple(notes))
    classes = [
        (part, trained.predict(part.inputs, adapt=settings.adapt, sites=part.domains, **given))
        for part in parts
    ]
    members = None
    if sets is not None and held_out is not None:
        probabilities = list(of_classes(held_out.outputs, "`sets`").values())
        in_sets = [domain_sets(probabilities, part.probabilities, sets) for _, part in classes]
        members = [part.members for part in in_sets]
        if not all(part.promised for part in in_sets):
            notes.append(_fewer("sets", sets, len(probabilities), "the right class"))
    frame = predictions_frame(classes, trained.classes, members)
    adapted = {site: how for _, part in classes for site, how in part.adapted.items()}
    return Predicted(trained, frame, tuple(notes), adapted)


def check_asked(settings: PredictSettings) -> None:
    """Raise if the settings contradict each other, regardless of the model."""
    sets, interval, expected = settings.sets, settings.interval, settings.expected
    if sets is None and interval is None and expected is not None:
        raise InvalidValue("`expected` needs `sets`, or `interval` for numbers")
    if sets is not None and expected is None:
        raise InvalidValue("`sets` needs `expected`, the runs that hold out each domain in turn")
    if sets is not None and settings.adapt != "none":
        raise InvalidValue("`sets` cannot be combined with `adapt`; leave out one of them")
    if interval is not None:
        checked_level(interval, "interval")


def checked_out(out: str | os.PathLike[str], data: str | None = None) -> Path:
    """Return the file to write to; reject other suffixes, and the file that `data` is read from."""
    path = Path(out).expanduser()
    if path.suffix not in SUFFIXES:
        raise InvalidValue(f"`out` must end in {' or '.join(SUFFIXES)}, not {path.name!r}")
    if data is not None:
        refuse_data_itself(path, data)
    return path


def _check_model(model: TrainedModel, settings: PredictSettings, held_out: Expected | None) -> None:
    if model.target and (settings.sets is not None or settings.adapt != "none"):
        raise InvalidValue(
            f"`sets` and `adapt` are for classes, and the model predicts a number, {model.target}"
        )
    if settings.interval is not None and not model.target:
        raise InvalidValue("`interval` is for numbers, and the model predicts classes: use `sets`")
    if held_out is not None:
        held_out.require_task_of(model)
        if model.update is not None:
            raise InvalidValue("`sets` are for trained models; this one is recalibrated")


def _fewer(what: str, level: float, domains: int, held: str) -> str:
    return (
        f"{what} of {level:g} need {domains_needed(level)} held-out domains, but there are only"
        f" {domains}; at a new domain they may contain {held} less often"
    )
