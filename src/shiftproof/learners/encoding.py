"""Raw rows made ready for models that take numbers alone: linear models, forests, networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from shiftproof.learners.samples import Samples

# Steps of the estimated ranks.  Few enough that each is shared by many rows: a model's file must
# not tell the values of single rows.
MOST_QUANTILES = 100
ROWS_A_QUANTILE = 5
# The code of a missing category; -1 is that of an unknown one.
MISSING = -2.0


def encoder(samples: Samples, *, ranks: bool = False) -> Any:
    """Return an unfitted transformer: no gaps, one scale, categories one-hot.

    A missing number becomes the median, and a further column says that it was missing: which tests
    a site does tells of the patient as well as of the site, and held-out domains judge whether that
    helps.  A missing category is one of its own, rare ones are another; one that was not trained on
    is one of these, or all zeros if there are none.  With ``ranks``, numbers are replaced by their
    rank among the training rows, in [0, 1]: long tails and the unit of measurement no longer
    matter.  Then columns are scaled to variance 1.
    """
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
    from sklearn.preprocessing import (  # type: ignore[import-untyped]
        OneHotEncoder,
        StandardScaler,
    )

    from shiftproof.learners.ranks import SmoothRanks

    steps = [
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    ]
    if ranks:
        quantiles = int(np.clip(len(samples) // ROWS_A_QUANTILE, 2, MOST_QUANTILES))
        steps.insert(1, SmoothRanks(n_quantiles=quantiles, subsample=None))
    one_hot = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=MISSING, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    categorical = samples.categorical
    columns = np.arange(len(categorical))
    parts = [
        ("numbers", make_pipeline(*steps), columns[~categorical]),
        ("categories", one_hot, columns[categorical]),
    ]
    return ColumnTransformer([part for part in parts if len(part[2])])
