"""Random forests: many deep trees on random samples and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from shiftproof.core.space import Choice, Int, hparam
from shiftproof.data.base import Progress, silent
from shiftproof.data.tables.preprocessing import FEWEST_ROWS
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.candidate import Candidate, Size, in_all_classes, single
from shiftproof.learners.encoding import encoded
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact
from shiftproof.learners.samples import Samples
from shiftproof.learners.table_models import TreeModel, forest_model

LEAVES = (1, 5)
# Trees for evaluating a regression forest.  Its trees are slow, because they try many columns per
# split, and 40 trees have nearly the error of all: up to 1/40 of the variance of one tree.
JUDGING_TREES = 40
# The share of columns tried per split in regression (Breiman, 2001); in classification, √d of d.
COLUMNS_OF_NUMBERS = 1 / 3


@dataclass(frozen=True)
class ForestCandidate(Candidate):
    """A random forest; the variants are the minimum number of samples in a leaf.

    ``extra`` draws the thresholds of splits at random (Geurts et al., 2006).
    """

    family = "forest"
    name: str = "forest"
    variants: Sequence[int] = LEAVES
    trees: int = 200
    extra: bool = False

    def predictions(self, train: Samples, x: np.ndarray, seed: int) -> np.ndarray:
        """Fit one forest per variant and predict ``x``."""
        most = self.trees if train.classes else JUDGING_TREES
        few = replace(self, trees=min(self.trees, most))
        models = [few.fit(train, variant, seed) for variant in self.variants]
        return np.stack([in_all_classes(m.predict(x), m.classes, train) for m in models])

    def seconds(self, size: Size) -> float:
        """Estimate the time: each tree level sorts rows by some columns, except extra trees."""
        rows, columns, _ = size
        level = (1.4e-8 if self.extra else 5.5e-8) * rows * math.sqrt(columns)
        return len(self.variants) * self.trees * (1.5e-3 + level * math.log2(rows + 2))

    def fit(self, train: Samples, variant: int, seed: int) -> TreeModel:
        """Return the fitted forest."""
        from sklearn import ensemble

        # The thresholds around a leaf with a single row would reveal the values of that row.
        leaf = max(variant, FEWEST_ROWS) if train.private else variant
        settings: dict[str, Any] = {"min_samples_leaf": leaf, "random_state": seed, "n_jobs": -1}
        if not train.classes:
            settings["max_features"] = COLUMNS_OF_NUMBERS
        task = "Classifier" if train.classes else "Regressor"
        kind = getattr(ensemble, ("ExtraTrees" if self.extra else "RandomForest") + task)
        encoder, rows = encoded(train)
        weight = None if train.weight is None else train.weights()
        return forest_model(kind(self.trees, **settings).fit(rows, train.y, weight), encoder)


@ALGORITHMS.register("forest")
class Forest(Exact):
    """Random forest (scikit-learn's).

    The minimum leaf size is selected on held-out training domains, unless given.
    """

    paper = "Breiman (2001)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """Number and size of trees."""

        trees: int = hparam(200, Int(5, 9, base=2), within=(1, 1e6), help="number of trees")
        smallest_leaf: int | Literal["auto"] = hparam(
            "auto",
            Choice((1, 2, 5, 10)),
            within=(1, 1e9),
            help="fewest samples in a leaf; auto chooses by held-out domains",
        )
        extra: bool = hparam(False, help="draw the thresholds of splits at random (extra trees)")

    hparams: Hparams

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return the fitted model, calibrated on held-out domains."""
        h = self.hparams
        variants = LEAVES if h.smallest_leaf == "auto" else (int(h.smallest_leaf),)
        candidate = ForestCandidate("forest", variants, h.trees, h.extra)
        return single(candidate, samples, seed)
