"""`ShiftproofRegressor`: regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from shiftproof.core.errors import DataError
from shiftproof.core.types import REGRESSION, SQUARED
from shiftproof.inference.predictions import NumberPredictions
from shiftproof.sklearn.base import ShiftproofEstimator
from shiftproof.sklearn.inputs import as_numpy
from shiftproof.sklearn.messages import value_errors
from shiftproof.sklearn.sample_domain import require_none_of


class ShiftproofRegressor(RegressorMixin, ShiftproofEstimator):  # type: ignore[misc]
    """A regressor trained on several domains to generalize to a new one.

    `fit(X, y, sample_domain=…)` needs the domain of each sample: the hospital, camera, year or
    style that it comes from.  `predict` needs no domains.  `X` is as in `ShiftproofClassifier`; `y`
    holds one number per sample, [n].

    Parameters
    ----------
    algorithm
        A name listed by `shiftproof algorithms`, or a scikit-learn regressor or pipeline, which is
        cloned.  By default `best` for tables and `erm` for images.
    loss
        `squared`, `absolute`, `huber` or `huber:DELTA`, with DELTA in standard deviations of `y`,
        or `quantile:Q`.  Models that are fitted at once support only the first two.

    The other parameters are those of `ShiftproofClassifier`.

    Attributes
    ----------
    domains_
        The distinct values of `sample_domain` (None if no domains were given).
    history_
        A data frame with one row per training record: losses, and R², MAE, RMSE and risk on the
        held-out parts.  `records_` holds the same as dictionaries.
    model_
        The trained model; after `save`, `shiftproof predict` can also read it.
    n_features_in_, feature_names_in_
        For a table: the number of its columns, and their names.
    """

    task = REGRESSION

    def __init__(
        self,
        algorithm: str | BaseEstimator | None = None,
        *,
        loss: str = SQUARED,
        backbone: str | None = None,
        hparams: Mapping[str, object] | None = None,
        steps: int = 1000,
        selection: str = "last",
        holdout: float | None = None,
        precision: str = "fp32",
        standardize: str = "none",
        image_size: int = 224,
        augment: bool = True,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            algorithm,
            backbone=backbone,
            hparams=hparams,
            steps=steps,
            selection=selection,
            holdout=holdout,
            precision=precision,
            standardize=standardize,
            image_size=image_size,
            augment=augment,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.loss = loss

    def fit(
        self, X: Any, y: Any, sample_domain: Any = None, sample_weight: Any = None, **other: Any
    ) -> Self:
        """Train on samples `X` with targets `y` and their domains `sample_domain`.

        Without domains, only algorithms that do not compare domains can be trained: `erm`, and
        those fitted at once, such as `best`, which then use random splits for validation.

        `sample_weight` [n] holds the weight of each sample, at least 0: weight 2 equals repeating
        the sample, and weight 0 leaves it out.
        """
        with value_errors():
            require_none_of(other)
            y = as_numpy(y)
            targets = validate_data(self, y=y, y_numeric=True)
            if len(targets) == 1:
                raise DataError("`y` has one sample; a regressor needs at least two")
            if np.asarray(targets).dtype.kind not in "biuf":
                raise DataError(f"`y` must hold numbers, not {np.asarray(targets).dtype}")
            self._train(X, np.asarray(targets, dtype=np.float64), sample_domain, sample_weight)
        return self

    def predict(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the predictions, [n].

        `sample_domain` is used only with `standardize`; by default, all samples form one domain.
        """
        return self._predicted(X, sample_domain).value_array

    def _predicted(self, given: Any, sample_domain: Any) -> NumberPredictions:
        check_is_fitted(self, "model_")
        with value_errors():
            x, sites = self._inputs(given, sample_domain)
            return self.model_.predict_numbers(x, sites=sites)
