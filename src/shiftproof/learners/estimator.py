"""A user's own scikit-learn classifier, regressor or pipeline, fitted unchanged.

Its input is a data frame with the table's column names (numbers as float, categories as strings,
missing values as NaN), or an array.  Its labels are class names, or numbers in their original
units.  Its settings are not tuned and its probabilities are not calibrated.

It is stored by skops, and only types in `TRUSTED` are allowed.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from shiftproof.core.errors import CheckpointError, InvalidValue
from shiftproof.core.files import ALWAYS_ALLOWED, MOST_TIMES
from shiftproof.core.space import hparam
from shiftproof.core.text import listed, reason_of
from shiftproof.core.types import CLASSIFICATION, Kind
from shiftproof.data.base import Progress, silent
from shiftproof.learners.array_model import require
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.criterion import criterion_of
from shiftproof.learners.ensemble import Ensemble, Member
from shiftproof.learners.exact import SMALLEST, Exact
from shiftproof.learners.samples import Samples

# The name of the algorithm; `core.registry` needs it as a literal where it is registered.
ESTIMATOR = "estimator"
# Stands for a category that the table does not contain.
UNKNOWN = "<unknown>"
# The name of the array with the bytes of an estimator.
STORED = "skops"
# Longest title with parameters, and the length at which the estimator's messages are cut.
LONGEST_TITLE, LONGEST_MESSAGE = 60, 200


# Types in scikit-learn models that skops does not trust by default.  `functools.partial` is checked
# together with the function that it calls.
TRUSTED = (
    "functools.partial",
    "numpy.dtype",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
    "sklearn.utils.validation.check_array",
)


def dumped(estimator: Any) -> bytes:
    """Serialise an estimator to bytes; equal estimators give equal bytes."""
    import skops.io

    stored: bytes = skops.io.dumps(estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1)
    return stored


def loaded(data: bytes, *, trust: bool) -> Any:
    """Rebuild what `dumped` stored, if it is trusted.

    Types that are not in `TRUSTED` are rejected, and archives that unpack to far more than their
    size.  Rebuilding damaged objects raises errors of any kind.
    """
    if not trust:
        raise InvalidValue(
            "the model holds a scikit-learn estimator of its author, which may run code: if you"
            " trust its author, load it with `trust=True`"
        )
    import skops.io

    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > max(ALWAYS_ALLOWED, MOST_TIMES * len(data)):
            raise ValueError(f"it unpacks to {size / 2**20:,.0f} MiB: it may be a zip bomb")
        return skops.io.loads(data, trusted=list(TRUSTED))
    except Exception as error:
        raise CheckpointError(
            f"the stored estimator cannot be read ({reason_of(error)}); train again"
        ) from error


@dataclass(eq=False)
class EstimatorModel:
    """A user's fitted estimator, applied to raw rows [n, d] like the other members.

    `columns` holds the names and, for categories, the values of a table's columns; it is empty for
    arrays.  `classes` [k] are the positions of the estimator's classes among all classes.  A
    regressor has none; it predicts in the units of its labels, which `center` and `scale` convert
    to standard units.
    """

    model: Any
    columns: Sequence[tuple[str, Sequence[str] | None]]
    classes: np.ndarray
    center: float = 0.0
    scale: float = 1.0

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts probabilities."""
        return len(self.classes) > 0

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the estimator's probabilities [n, k], or numbers [n, 1] in standard units."""
        try:
            if self.is_classifier:
                return np.asarray(self.model.predict_proba(self.given(x)), dtype=float)
            numbers = np.asarray(self.model.predict(self.given(x)), dtype=float)
            return (numbers.reshape(len(x), 1) - self.center) / self.scale
        except Exception as error:
            raise InvalidValue(f"{title(self.model)} cannot predict: {_one_line(error)}") from error

    def given(self, x: np.ndarray) -> Any:
        """Return raw rows as the estimator's input: a data frame, or the array."""
        if not self.columns:
            return x
        import pandas as pd

        text = pd.Series(["a"]).dtype  # the dtype of strings depends on the version of pandas
        series = {}
        for (name, values), cells in zip(self.columns, x.T, strict=True):
            if values is None:
                series[name] = pd.Series(cells)
            else:
                # Negative codes index from the end: -1 is an unknown category, -2 a missing one.
                texts = np.array([*values, np.nan, UNKNOWN], dtype=object)
                codes = np.where(np.isnan(cells), -2, cells).astype(int)
                series[name] = pd.Series(texts[codes], dtype=text)
        return pd.DataFrame(series)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the estimator, as JSON values."""
        return {
            "columns": [[name, values and list(values)] for name, values in self.columns],
            "classes": self.classes.tolist(),
            "center": self.center,
            "scale": self.scale,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the estimator as the bytes of a skops archive."""
        return {STORED: np.frombuffer(dumped(self.model), dtype=np.uint8)}

    @classmethod
    def read(
        cls, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], *, stored: Any, trust: bool
    ) -> EstimatorModel:
        """Rebuild what `to_json` and `arrays` returned, if it is trusted."""
        require(len(stored["columns"]) in (0, sizes["columns"]), "columns differ")
        require(all(0 <= one < sizes["classes"] for one in stored["classes"]), "no such class")
        classes = np.array(stored["classes"], dtype=np.int64)
        model = loaded(arrays[STORED].tobytes(), trust=trust)
        return cls(model, **{**stored, "classes": classes})


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
        from sklearn.base import clone

        if self.unfitted is None:
            raise InvalidValue(NEEDS_ONE)
        started = time.perf_counter()
        name = title(self.unfitted)
        estimator = seeded(clone(self.unfitted), seed)
        columns = [
            (column.name, column.values if column.kind == "category" else None)
            for column in samples.columns
        ]
        (center,), (scale,) = self.task.center, self.task.scale
        model = EstimatorModel(estimator, columns, np.arange(0), center, scale)
        labels = center + scale * samples.y
        if samples.classes:
            labels = np.array(samples.class_names)[samples.y]
        weights = weights_for(estimator, samples)
        try:
            estimator.fit(model.given(samples.x), labels, **weights)
            if samples.classes:
                classes = [samples.class_names.index(str(name)) for name in estimator.classes_]
                model.classes = np.array(classes)
        except Exception as error:
            held_out = f" with {listed(self.test_domains)} held out" if self.test_domains else ""
            raise InvalidValue(f"{name} cannot be fitted{held_out}: {_one_line(error)}") from error
        # A search predicts with its best estimator; the rest is no longer needed.
        model.model = getattr(estimator, "best_estimator_", estimator)
        check_types(model.model)
        seconds = time.perf_counter() - started
        return Ensemble((Member(name, "", 1.0, 1.0, None, None, model, seconds),), samples.classes)

    def loss(self, ensemble: Ensemble, samples: Samples) -> float:
        """Return the loss on the training samples, because no domain is held out."""
        if not samples.classes:
            losses = criterion_of(samples).losses(ensemble.predict(samples.x), samples)
            return float(np.float32(losses.mean()))
        chances = ensemble.predict(samples.x)[np.arange(len(samples)), samples.y]
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
    import skops.io

    name = title(estimator)
    try:
        types = skops.io.get_untrusted_types(data=skops.io.dumps(estimator))
    except Exception as error:  # whatever skops cannot write, such as a lambda
        raise InvalidValue(
            f"{name} cannot be stored in a model file: {_one_line(error)}"
        ) from error
    if refused := sorted(set(types) - set(TRUSTED)):
        raise InvalidValue(
            f"{name} contains {listed(refused)}, which cannot be stored in a model file, because"
            " loading one must not run any code; use only scikit-learn's own objects"
        )


def weights_for(estimator: Any, samples: Samples) -> dict[str, np.ndarray]:
    """Return the sample weights, if any, as a keyword argument of the estimator's `fit`."""
    from sklearn.utils.validation import has_fit_parameter

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
    import joblib

    return {"estimator": title(estimator), "parameters": joblib.hash(_plain(estimator))[:16]}


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
    from sklearn.ensemble import StackingClassifier

    last = estimator.steps[-1][1] if getattr(estimator, "steps", None) else estimator
    if isinstance(last, StackingClassifier) and last.final_estimator is None:
        return True  # `fit` adds a logistic regression as the final estimator
    return hasattr(estimator, "predict_proba")


def _plain(value: Any) -> Any:
    """Return parameters as nested lists that are equal for equal parameters, fitted or not."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        kind, parameters = type(value), sorted(value.get_params(deep=False).items())
        return [kind.__module__, kind.__qualname__, [[k, _plain(v)] for k, v in parameters]]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return [[key, _plain(item)] for key, item in value.items()]
    return value


def _one_line(error: Exception) -> str:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"
