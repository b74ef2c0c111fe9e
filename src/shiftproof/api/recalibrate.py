"""`recalibrate`: update a model with a few labelled rows of a new site."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import RecalibrateSettings
from shiftproof.core.errors import DataError, nearest
from shiftproof.core.settings import keywords
from shiftproof.inference.adaptation.recalibrate import Recalibration
from shiftproof.inference.model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd


class Recalibrated(NamedTuple):
    """The updated model, and the chosen update with scores before and after."""

    model: TrainedModel
    result: Recalibration


@keywords(RecalibrateSettings)
def recalibrate(
    model: TrainedModel | str | os.PathLike[str],
    data: pd.DataFrame | str | os.PathLike[str],
    settings: RecalibrateSettings,
) -> Recalibrated:
    """Update a model with labelled rows of one new site, as far as these rows support it.

    A closed testing procedure chooses between the original model, a new intercept, a new intercept
    and slope, and a revision that is shrunk toward the trained model.  20 to 500 rows are usual.
    The result is adapted to this site and says nothing about other sites.

    Args:
        model: a trained model, or the path of its run or file.
        data: labelled rows of the new site: a table, or its path.
    """
    trained = as_model(model, settings.device, trust=settings.trust)
    (part,) = new_samples(trained, data, label=settings.label, labelled=True)
    labels = {row: label for row, label in enumerate(part.labels or ()) if label is not None}
    if not labels:
        raise DataError("no row has a label")
    for label in labels.values():
        if label not in trained.classes:
            likely = nearest(str(label), trained.classes)
            raise DataError(f"{label!r} is not a class of the model; {likely}")
    codes = np.array([trained.classes.index(str(label)) for label in labels.values()])
    return Recalibrated(*trained.recalibrated(part.take(np.array([*labels])).inputs, codes))
