"""A user's own scikit-learn classifier, regressor or pipeline, fitted unchanged.

Its input is a data frame with the table's column names (numbers as float, categories as strings,
missing values as NaN), or an array.  Its labels are class names, or numbers in their original
units.  Its settings are not tuned and its probabilities are not calibrated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.core.errors import InvalidValue
from shiftproof.core.space import hparam
from shiftproof.core.text import listed
from shiftproof.core.types import CLASSIFICATION, Kind
from shiftproof.data.tables.preprocessing import Column
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.ensemble import Ensemble, Member, untrusted_types
from shiftproof.learners.exact import SMALLEST, Exact, Progress, silent
from shiftproof.learners.samples import Samples

# The name of the algorithm; `core.registry` needs it as a literal where it is registered.
ESTIMATOR = "estimator"
# Stands for a category that the table does not contain.
UNKNOWN = "<unknown>"
# Longest title with parameters, and the length at which the estimator's messages are cut.
LONGEST_TITLE, LONGEST_MESSAGE = 60, 200


class EstimatorModel:
    """A user's fitted classifier, applied to raw rows [n, d] like the other members.

    `columns` holds the names and, for categories, the values of a table's columns; it is empty for
    arrays.  `classes_` [k] are the positions of the estimator's classes among all classes.
    """

    def __init__(
        self, model: Any, columns: Sequence[Column], classes: np.ndarray | Sequence[int]
    ) -> None:
        self.model = model
        self.columns: list[Any] = [
            [column.name, list(column.values) if column.kind == "category" else None]
            for column in columns
        ]
        self.classes_ = np.asarray(classes)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """Return the estimator's probabilities, [n, k]."""
        try:
            found: np.ndarray = np.asarray(self.model.predict_proba(self.given(x)), dtype=float)
        except Exception as error:
            raise InvalidValue(f"{title(self.model)} cannot predict: {_one_line(error)}") from error
        return found

    def given(self, x: np.ndarray) -> Any:
        """Return raw rows as the estimator's input: a data frame, or the array."""
        if not self.columns:
            return x
        import pandas as pd  # type: ignore[import-untyped]

        text = pd.Series(["a"]).dtype  # the dtype of strings depends on the version of pandas
        made = {}
        for place, (name, values) in enumerate(self.columns):
            cells = x[:, place]
            if values is None:
                made[name] = pd.Series(cells)
            else:
                # Negative codes index from the end: -1 is an unknown category, -2 a missing one.
                texts = np.array([*values, np.nan, UNKNOWN], dtype=object)
                codes = np.where(np.isnan(cells), -2, cells).astype(int)
                made[name] = pd.Series(texts[codes], dtype=text)
        return pd.DataFrame(made)


class NumberEstimatorModel(EstimatorModel):
    """A user's fitted regressor, which predicts in the units of its labels.

    `center` and `scale`, lists of one number, convert predictions to the standard units of others.
    """

    def __init__(
        self,
        model: Any,
        columns: Sequence[Column],
        center: Sequence[float],
        scale: Sequence[float],
    ) -> None:
        super().__init__(model, columns, ())
        self.center, self.scale = list(center), list(scale)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return numbers [n] in standard units."""
        try:
            found: np.ndarray = np.asarray(self.model.predict(self.given(x)), dtype=float)
        except Exception as error:
            raise InvalidValue(f"{title(self.model)} cannot predict: {_one_line(error)}") from error
        standard: np.ndarray = (found.reshape(len(x)) - self.center) / np.array(self.scale)
        return standard


@ALGORITHMS.register("estimator")
class EstimatorAlgorithm(Exact):
    """Your own scikit-learn model or pipeline, passed from Python in place of a name."""

    paper = "Pedregosa et al. (2011)"

    @dataclass(frozen=True)
    class Hparams(Exact.Hparams):
        """The identity of the estimator, filled in by `shiftproof.train`."""

        estimator: str = hparam("", help="name of the estimator (set automatically)")
        parameters: str = hparam("", help="hash of its parameters (set automatically)")

    hparams: Hparams
    # Set for training; a loaded model does not need them.
    unfitted: Any = None
    test_domains: tuple[str, ...] = ()

    def fitted(self, samples: Samples, seed: int, progress: Progress = silent) -> Ensemble:
        """Return a clone of the estimator, fitted to all samples."""
        from sklearn.base import clone  # type: ignore[import-untyped]

        if self.unfitted is None:
            raise InvalidValue(NEEDS_ONE)
        started = time.perf_counter()
        name = title(self.unfitted)
        model = seeded(clone(self.unfitted), seed)
        made: EstimatorModel
        if samples.classes:
            made = EstimatorModel(model, samples.columns, ())
            labels = np.array(samples.class_names)[samples.y]
        else:
            center, scale = self.task.center, self.task.scale
            made = NumberEstimatorModel(model, samples.columns, center, scale)
            labels = center[0] + scale[0] * samples.y
        weights = weights_for(model, samples)
        try:
            model.fit(made.given(samples.x), labels, **weights)
            if samples.classes:
                places = {label: place for place, label in enumerate(samples.class_names)}
                made.classes_ = np.array([places[str(label)] for label in model.classes_])
        except Exception as error:
            held_out = f" with {listed(self.test_domains)} held out" if self.test_domains else ""
            raise InvalidValue(f"{name} cannot be fitted{held_out}: {_one_line(error)}") from error
        # A search predicts with its best estimator; the rest is no longer needed.
        made.model = getattr(model, "best_estimator_", model)
        check_types(made.model)
        seconds = time.perf_counter() - started
        return Ensemble((Member(name, "", 1.0, 1.0, None, None, made, seconds),), samples.classes)

    def loss(self, ensemble: Ensemble, samples: Samples) -> float:
        """Return the loss on the training samples, because no domain is held out."""
        if not samples.classes:
            losses = criterion_of(samples).losses(ensemble.predict(samples.x), samples)
            return float(np.float32(losses.mean()))
        chances = ensemble.predict_proba(samples.x)[np.arange(len(samples)), samples.y]
        return float(-np.log(np.maximum(chances, SMALLEST)).mean())


NEEDS_ONE = (
    f"{ESTIMATOR} stands for your own scikit-learn model: pass the object itself from Python, as in"
    " shiftproof.train(data, LogisticRegression())"
)


def accepted(estimator: Any, kind: Kind = CLASSIFICATION) -> Any:
    """Return a clone of a user's estimator; reject one that cannot be trained or stored."""
    from sklearn.base import clone, is_classifier, is_regressor

    if isinstance(estimator, type):
        raise InvalidValue(
            f"`algorithm` must be an instance, not the class {estimator.__name__}; pass"
            f" {estimator.__name__}()"
        )
    name = type(estimator).__name__
    wanted = "classifier" if kind == CLASSIFICATION else "regressor"
    fits = is_classifier if kind == CLASSIFICATION else is_regressor
    if not hasattr(estimator, "get_params") or not fits(estimator):
        raise InvalidValue(f"`algorithm` must be a name or a scikit-learn {wanted}, not a {name}")
    if kind == CLASSIFICATION and not _predicts_probabilities(estimator):
        raise InvalidValue(
            f"{name} has no predict_proba, which is needed to predict probabilities; wrap it, as in"
            f" CalibratedClassifierCV({name}(…))"
        )
    copy = clone(estimator)
    check_types(copy)
    return copy


def check_types(estimator: Any) -> None:
    """Reject an estimator with types that model files may not contain."""
    name = title(estimator)
    try:
        refused = untrusted_types(estimator)
    except Exception as error:  # whatever skops cannot write, such as a lambda
        raise InvalidValue(
            f"{name} cannot be stored in a model file: {_one_line(error)}"
        ) from error
    if refused:
        raise InvalidValue(
            f"{name} contains {listed(refused)}, which cannot be stored in a model file, because"
            " loading one must not run any code; use only scikit-learn's own objects"
        )


def weights_for(estimator: Any, samples: Samples) -> dict[str, np.ndarray]:
    """Return the sample weights, if any, as a keyword argument of the estimator's `fit`."""
    from sklearn.utils.validation import has_fit_parameter  # type: ignore[import-untyped]

    if samples.weight is None:
        return {}
    steps = getattr(estimator, "steps", None)
    last, prefix = (steps[-1][1], f"{steps[-1][0]}__") if steps else (estimator, "")
    if not has_fit_parameter(last, "sample_weight"):
        raise InvalidValue(
            f"`fit` of {title(last)} takes no `sample_weight`; leave out the weights, or choose"
            " another `algorithm`"
        )
    return {f"{prefix}sample_weight": samples.weight}


def identified(estimator: Any) -> dict[str, str]:
    """Return a readable title of an estimator and a hash of all its parameters."""
    import joblib  # type: ignore[import-untyped]

    return {
        "estimator": title(estimator),
        "parameters": joblib.hash(_plain(estimator))[:16],
    }


def title(estimator: Any) -> str:
    """Return a short name: the types of a pipeline's steps, or the type with its parameters.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> title(LogisticRegression(C=0.1))
    'LogisticRegression(C=0.1)'
    >>> title(make_pipeline(StandardScaler(), LogisticRegression()))
    'StandardScaler + LogisticRegression'
    """
    steps = [step for _, step in getattr(estimator, "steps", ())]
    if steps:
        return " + ".join(type(step).__name__ for step in steps)
    parameters = " ".join(repr(estimator).split())
    return parameters if len(parameters) <= LONGEST_TITLE else type(estimator).__name__


def seeded(estimator: Any, seed: int) -> Any:
    """Set every `random_state` that is None, also nested ones, and return the estimator."""
    rng = np.random.default_rng(seed)
    missing = [
        key
        for key, value in sorted(estimator.get_params(deep=True).items(), key=lambda item: item[0])
        if key.rpartition("__")[2] == "random_state" and value is None
    ]
    return estimator.set_params(**{key: int(rng.integers(2**31 - 1)) for key in missing})


def _predicts_probabilities(estimator: Any) -> bool:
    from sklearn.ensemble import StackingClassifier  # type: ignore[import-untyped]

    last = estimator.steps[-1][1] if getattr(estimator, "steps", None) else estimator
    if isinstance(last, StackingClassifier) and last.final_estimator is None:
        return True  # `fit` adds a logistic regression as the final estimator
    return hasattr(estimator, "predict_proba")


def _plain(value: Any) -> Any:
    """Return parameters as nested lists that are equal for equal parameters, fitted or not."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        own = sorted(value.get_params(deep=False).items())
        return [type(value).__module__, type(value).__qualname__, [[k, _plain(v)] for k, v in own]]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return [[key, _plain(item)] for key, item in value.items()]
    return value


def _one_line(error: Exception) -> str:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"
