"""`compare_sites`: compare a new site with the training domains."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from shiftproof.api.load_model import as_model
from shiftproof.api.new_samples import new_samples
from shiftproof.api.settings import LoadModelSettings
from shiftproof.core.settings import keywords
from shiftproof.inference.adaptation.compare_sites import Comparison, compare_sites as compared
from shiftproof.inference.model import TrainedModel

if TYPE_CHECKING:
    import pandas as pd


@keywords(LoadModelSettings)
def compare_sites(
    model: TrainedModel | str | os.PathLike[str],
    data: pd.DataFrame | str | os.PathLike[str],
    settings: LoadModelSettings,
) -> Comparison:
    """Compare the unlabelled rows of one new site with each training domain.

    Args:
        model: a trained model, or the path of its run or file.
        data: rows of the new site: a table, its path, or any other input of the model.
    """
    trained = as_model(model, settings.device, trust=settings.trust)
    (part,) = new_samples(trained, data)
    return compared(trained, part.inputs)
