"""Histogram-based gradient-boosted trees, with native missing values and categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from shiftproof.core.space import Float, Int, hparam
from shiftproof.data.base import Progress, silent
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.candidate import Candidate, Size, in_all_classes, single
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact
from shiftproof.learners.samples import Samples
from shiftproof.learners.table_models import TreeModel, boosting_model

# Rows per bin of a column's histogram: with fewer, the finer thresholds are noise.
ROWS_A_BIN = 10
FEWEST_BINS, MOST_BINS = 32, 255
# Minimum rows in a leaf (scikit-learn's default), which keeps trees small on few rows.
ROWS_A_LEAF = 20
STAGES = (25, 50, 100, 200)


@dataclass(frozen=True)
class BoostingCandidate(Candidate):
    """Boosted trees; the variants are numbers of trees, taken from one sequence."""

    family = "boosting"
    name: str = "boosting"
    variants: Sequence[int] = STAGES
    learning_rate: float = 0.1
    leaves: int = 31

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit the longest sequence and predict after each number of trees."""
        model = self._fitted(train, max(self.variants), seed)
        staged = model.staged_predict_proba if train.classes else model.staged_predict
        stages = enumerate(staged(x), start=1)
        by_length = {trees: p.reshape(len(x), -1) for trees, p in stages if trees in self.variants}
        known = getattr(model, "classes_", ())
        return np.stack(
            [in_all_classes(by_length[variant], known, train) for variant in self.variants]
        )

    def seconds(self, size: Size) -> float:
        """Estimate the time: for all columns, each level scans the rows and each leaf the bins."""
        rows, columns, outputs = size
        leaves = min(self.leaves, max(rows / ROWS_A_LEAF, 1))
        column = 2.6e-9 * rows * math.log2(leaves) + 1.8e-9 * leaves * _bins(rows)
        tree = 5e-5 * leaves + columns * column
        return max(self.variants) * outputs * tree

    def fit(self, train: Samples, variant: int, seed: int) -> TreeModel:
        """Return the trees, without the bins, which would reveal values of training rows."""
        return boosting_model(self._fitted(train, variant, seed))

    def _fitted(self, train: Samples, trees: int, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        missing = np.isnan(train.x)
        codes = np.where(missing, -1, train.x).max(axis=0)
        bins = _bins(len(train))
        kind = HistGradientBoostingClassifier
        if not train.classes:
            kind = partial(HistGradientBoostingRegressor, loss=f"{train.loss}_error")
        model = kind(
            learning_rate=self.learning_rate,
            max_iter=trees,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=ROWS_A_LEAF,
            max_bins=bins,
            early_stopping=False,
            categorical_features=train.categorical & (codes < bins),
            random_state=seed,
        )
        weight = None if train.weight is None else train.weights()
        # Columns without any value, which scikit-learn cannot bin, are filled with 0.
        return model.fit(np.where(missing.all(axis=0), 0.0, train.x), train.y, weight)


def _bins(rows: float) -> int:
    """Return the number of bins of a column's histogram."""
    return int(np.clip(rows // ROWS_A_BIN, FEWEST_BINS, MOST_BINS))


@ALGORITHMS.register("boosting")
class Boosting(Exact):
    """Gradient-boosted trees (scikit-learn's HistGradientBoosting).

    The number of trees is selected on held-out training domains, unless given.
    """

    paper = "Friedman (2001); Ke et al. (2017)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """Number and size of the trees, and the learning rate."""

        trees: int | Literal["auto"] = hparam(
            "auto",
            Int(4, 9, base=2),
            within=(1, 1e6),
            help="number of trees; auto chooses by held-out domains",
        )
        learning_rate: float = hparam(
            0.1, Float(-2, 0, base=10), within=(1e-9, 10), help="what one tree adds"
        )
        leaves: int = hparam(31, Int(2, 6, base=2), within=(2, 1e6), help="leaves of a tree")

    hparams: Hparams

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return the fitted model, calibrated on held-out domains."""
        h = self.hparams
        variants = STAGES if h.trees == "auto" else (int(h.trees),)
        candidate = BoostingCandidate("boosting", variants, h.learning_rate, h.leaves)
        return single(candidate, samples, seed)
