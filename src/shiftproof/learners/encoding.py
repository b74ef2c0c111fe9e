"""Raw rows made ready for models that take numbers alone: linear models, forests, networks."""

from __future__ import annotations

from typing import Any

import numpy as np


def encoder(categorical: np.ndarray) -> Any:
    """Return an unfitted transformer: no gaps, one scale, categories one-hot.

    ``categorical`` [d] says which columns hold codes.  A missing number becomes the median, and a
    further column says that it was missing: which tests a site does tells of the patient as well
    as of the site, and held-out domains judge whether that helps.  A missing category is one of
    its own; one that was not trained on is all zeros.
    """
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
    from sklearn.preprocessing import (  # type: ignore[import-untyped]
        OneHotEncoder,
        StandardScaler,
    )

    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    one_hot = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-1.0, keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    columns = np.arange(len(categorical))
    parts = [
        ("numbers", numbers, columns[~categorical]),
        ("categories", one_hot, columns[categorical]),
    ]
    return ColumnTransformer([part for part in parts if len(part[2])])
