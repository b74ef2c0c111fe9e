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
    labels = list(part.labels or ())
    known = np.array([place for place, value in enumerate(labels) if value is not None], dtype=int)
    if not len(known):
        raise DataError("no row has a label")
    position = {name: code for code, name in enumerate(trained.classes)}
    strange = [value for value in labels if value is not None and value not in position]
    if strange:
        first = strange[0]
        raise DataError(
            f"{first!r} is not a class of the model; {nearest(str(first), trained.classes)}"
        )
    codes = np.array([position[str(labels[place])] for place in known])
    return Recalibrated(*trained.recalibrated(part.take(known).inputs, codes))
