"""`predict`: predict new samples with a trained model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shiftproof.api.held_out import Runs, held_out_in
from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import PredictSettings
from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import refuse_data_itself, write_atomically
from shiftproof.core.settings import keywords
from shiftproof.data.base import silent
from shiftproof.inference.adaptation.label_shift import Adapted
from shiftproof.inference.conformal import Width, checked_level, domain_sets, half_width
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
        found: str = self.frame.to_html(max_rows=20, index=False)
        return found


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
    sets, interval, adapt, expected = (
        settings.sets, settings.interval, settings.adapt, settings.expected,
    )  # fmt: skip
    progress = settings.progress or silent
    check_asked(sets, interval, expected, adapt)
    held_out = None if expected is None else held_out_in(expected)
    trained = as_model(model, settings.device, trust=settings.trust)
    _check_model(trained, sets, interval, adapt, held_out)
    width = None if interval is None else _width(trained, interval, held_out)
    parts = new_samples(
        trained,
        data,
        data_seed=settings.data_seed,
        progress=progress,
        domain=settings.domain,
        image=settings.image,
        keep=settings.keep,
        options=settings.options or {},
    )
    notes = [note for part in parts for note in part.notes]
    if interval is not None and width is not None and not width.promised:
        domains = len(held_out.outputs) if held_out else len(trained.domains)
        notes.append(_fewer("intervals", interval, domains, "the number"))
    given: Any = {"workers": settings.workers, "progress": progress}
    if trained.target:
        numbers = [
            (part, trained.predict_numbers(part.inputs, sites=part.domains, **given))
            for part in parts
        ]
        frame = numbers_frame(numbers, None if width is None else width.half)
        return Predicted(trained, frame, tuple(notes))
    done = [
        (part, trained.predict(part.inputs, adapt=adapt, sites=part.domains, **given))
        for part in parts
    ]
    members = None
    if sets is not None and held_out is not None:
        found = [
            domain_sets(list(of_classes(held_out.outputs, "`sets`").values()), array, sets)
            for array in (own.probability_array for _, own in done)
        ]
        members = [each.members for each in found]
        if not all(each.promised for each in found):
            notes.append(_fewer("sets", sets, len(held_out.outputs), "the right class"))
    frame = predictions_frame(done, trained.classes, members)
    adapted = {site: own for _, each in done for site, own in each.adapted.items()}
    return Predicted(trained, frame, tuple(notes), adapted)


def check_asked(
    sets: float | None, interval: float | None, expected: Runs | None, adapt: str
) -> None:
    """Raise if the settings contradict each other, regardless of the model."""
    if sets is None and interval is None and expected is not None:
        raise InvalidValue("`expected` needs `sets`, or `interval` for numbers")
    if sets is not None and expected is None:
        raise InvalidValue("`sets` needs `expected`, the runs that hold out each domain in turn")
    if sets is not None and adapt != "none":
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


def _check_model(
    model: TrainedModel,
    sets: float | None,
    interval: float | None,
    adapt: str,
    held_out: Expected | None,
) -> None:
    if model.target and (sets is not None or adapt != "none"):
        raise InvalidValue(
            f"`sets` and `adapt` are for classes, and the model predicts a number, {model.target}"
        )
    if interval is not None and not model.target:
        raise InvalidValue("`interval` is for numbers, and the model predicts classes: use `sets`")
    if held_out is not None:
        held_out.require_task_of(model)
        if model.update is not None:
            raise InvalidValue("`sets` are for trained models; this one is recalibrated")


def _width(model: TrainedModel, interval: float, held_out: Expected | None) -> Width:
    """Return half the width of the intervals."""
    if held_out is None:
        return model.half_width(interval)
    return half_width(list(of_numbers(held_out.outputs, "`interval`").values()), interval)


def _fewer(what: str, level: float, domains: int, held: str) -> str:
    return (
        f"{what} of {level:g} need {domains_needed(level)} held-out domains, but there are only"
        f" {domains}; at a new domain they may contain {held} less often"
    )
