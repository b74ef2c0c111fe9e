"""Every algorithm as a scikit-learn classifier or regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from shiftproof.core.errors import DataError
from shiftproof.core.types import CLASSIFICATION, REGRESSION, SQUARED
from shiftproof.sklearn.base import ShiftproofEstimator
from shiftproof.sklearn.inputs import as_numpy, names_of, require_none_of, texts_of
from shiftproof.sklearn.run import value_errors


class ShiftproofClassifier(ClassifierMixin, ShiftproofEstimator):  # type: ignore[misc]
    """A classifier trained on several domains to generalize to a new one.

    `fit(X, y, sample_domain=…)` needs the domain of each sample: the hospital, camera, year or
    style that it comes from.  `predict` needs no domains.

    `X` is a table [n, features] (array, tensor or list; NaN is a missing value), a pandas data
    frame (also with text and categories), images [n, channels, height, width] (uint8, or numbers in
    [0, 1]), or a list of paths of image files.  Tables are imputed and standardised with the
    statistics of the training part, so no scaler is needed before this estimator.

    Parameters
    ----------
    algorithm
        A name listed by `shiftproof algorithms`, or a scikit-learn classifier or pipeline, which is
        cloned.  It receives the columns of a data frame by name, and the labels as strings.  By
        default `best` for tables and `idm-auto` for images, as in `shiftproof.train`.
    backbone
        The network; by default `mlp` for tables, `mnist-cnn` for images up to 64 pixels,
        `resnet18` for larger ones and `resnet50` for image files.  The last two start from
        pretrained weights, which are downloaded unless `hparams={"weights": …}` is a file or
        `"random"`.
    hparams
        Hyper-parameters of the algorithm or the backbone that override the published defaults.
    steps
        Number of updates of a network; each uses `batch_size` samples (64 for tables) from every
        domain.  The published defaults assume 5,001 steps.  Hyper-parameters that count steps, such
        as IDM's warm-up of 1,500, are scaled to this number (1,500 → 300 in 1,000 steps) unless
        `hparams` sets them; `model_.config.hparams` holds the values used.
    selection
        Weights to predict with: the `last`; those with the lowest risk on the held-out parts of the
        training domains (`training-domain`); an exponential moving average (`ema`); or SWAD's
        average over the steps where that risk is low (`swad`).
    holdout
        The share of each domain to hold out of training, used to select weights, to evaluate for
        `history_` and to compute `typicality`.  0 trains on all samples.  By default 0.2, and 0 for
        algorithms that are fitted at once, such as `best`.
    precision
        `fp32` or `bf16`.
    standardize
        `domain` standardises the numeric features of each domain by its own rows, and those of a
        new domain by the rows given to `predict`; `whiten` and `auto` as in `shiftproof.train`.
    image_size, augment
        For image files: height and width, and whether to apply random crops, flips and colours.
    device
        `auto`, `cpu`, `cuda` or `mps`.
    random_state
        Seed of the initial weights, the batches and the held-out samples.  The same integer and the
        same samples in the same order give the same model.  Another order gives another model,
        because samples are held out and drawn by their position within the domain.
    verbose
        Print progress.

    Attributes
    ----------
    classes_, domains_
        The distinct values of `y` and of `sample_domain` (None if no domains were given).
    history_
        A data frame with one row per training record: losses, and accuracy and risk on the held-out
        parts.  `records_` holds the same as dictionaries.
    model_
        The trained model; after `save`, `shiftproof predict` can also read it.
    n_features_in_, feature_names_in_
        For a table: the number of its columns, and their names.
    """

    task = CLASSIFICATION
    classes_: np.ndarray

    def fit(
        self, X: Any, y: Any, sample_domain: Any = None, sample_weight: Any = None, **other: Any
    ) -> Self:
        """Train on samples `X` with labels `y` and their domains `sample_domain`.

        Without domains, only algorithms that do not compare domains can be trained: `erm`, and
        those fitted at once, such as `best`, which then use random splits for validation.

        `sample_weight` [n] holds the weight of each sample, at least 0: weight 2 equals repeating
        the sample, and weight 0 leaves it out.
        """
        with value_errors():
            require_none_of(other)
            targets = validate_data(self, y=as_numpy(y))
            check_classification_targets(targets)
            classes = names_of(targets, "y")
            if len(classes.texts) == 1:
                raise DataError(
                    f"`y` has only one class, {classes.texts[0]!r}, in all {len(targets)} samples;"
                    " a classifier needs at least two"
                )
            self._train(X, classes.labels, sample_domain, sample_weight, classes.texts)
        self.classes_ = classes.values
        return self

    def predict(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the most probable class of each sample, in the type of `y`.

        `sample_domain` is used only with `standardize`; by default, all samples form one domain.
        """
        likely = self.predict_proba(X, sample_domain).argmax(axis=1)
        return np.asarray(self.classes_[likely])

    def predict_proba(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the class probabilities, [n, classes] in the order of `classes_`."""
        probabilities: np.ndarray = self._predicted(X, sample_domain).probabilities
        classes = self.model_.classes
        return probabilities[:, [classes.index(text) for text in texts_of(self.classes_, "y")]]

    def _set_classes(self, classes: np.ndarray) -> None:
        self.classes_ = classes


@dataclass(eq=False, repr=False, kw_only=True)
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

    loss: str = SQUARED

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
            targets = np.asarray(validate_data(self, y=as_numpy(y), y_numeric=True))
            if len(targets) == 1:
                raise DataError("`y` has one sample; a regressor needs at least two")
            if targets.dtype.kind not in "biuf":
                raise DataError(f"`y` must hold numbers, not {targets.dtype}")
            self._train(X, targets.astype(np.float64), sample_domain, sample_weight)
        return self

    def predict(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the predictions, [n].

        `sample_domain` is used only with `standardize`; by default, all samples form one domain.
        """
        values: np.ndarray = self._predicted(X, sample_domain).values
        return values
