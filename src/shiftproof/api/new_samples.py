"""New samples in the input form of a trained model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from shiftproof.data.base import Progress, silent
from shiftproof.data.input_forms import Samples
from shiftproof.data.sample_request import SampleRequest
from shiftproof.inference.model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd


def new_samples(
    model: TrainedModel,
    data: pd.DataFrame | str | os.PathLike[str],
    *,
    data_seed: int | None = None,
    progress: Progress = silent,
    **asked: Any,
) -> list[Samples]:
    """Read samples, in as many parts as they are stored in.

    By default, columns have the same names and a dataset the same seed as in training.  The
    keywords ``asked`` are fields of `SampleRequest`.
    """
    given = str(data) if isinstance(data, str | os.PathLike) else data
    seed = model.config.data_seed if data_seed is None else data_seed
    return SampleRequest(given, usual=model.columns, **asked).read(model.form, seed, progress)
