"""The base class of the estimators: parameters, inputs, training, and files."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from shiftproof.core.errors import CheckpointError, DataError, InvalidValue, ShiftproofError
from shiftproof.core.files import read_json, write_atomically
from shiftproof.core.json_values import rebuilt
from shiftproof.core.migrations import with_format
from shiftproof.core.space import resolve
from shiftproof.core.text import reason_of
from shiftproof.core.types import CLASSIFICATION, Kind as TaskKind
from shiftproof.data.images.files import ImageView
from shiftproof.data.input_forms import TableForm
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_file import MODEL, run_in
from shiftproof.learners.estimator import ESTIMATOR, dumped, loaded, title
from shiftproof.sklearn.inputs import (
    KINDS,
    Kind,
    dataset_of,
    domains_of,
    kind_of_form,
    names_of,
    recognised,
    texts_of,
    weights_of,
)
from shiftproof.sklearn.run import Reporter, train_model, value_errors
from shiftproof.training.configure import default_algorithm
from shiftproof.training.records import Records

if TYPE_CHECKING:
    import pandas as pd


# The file of an estimator's own data, next to its model.
FILE = "estimator.json"
# The prefix of a parameter that sets a single hyper-parameter.
HPARAMS = "hparams__"
# The tabular kinds of inputs.
TABLES = {"table", "frame"}


@dataclass(frozen=True)
class Values:
    """Values of a NumPy array, as stored."""

    dtype: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, array: np.ndarray | None) -> Values | None:
        """Return what to store of an array."""
        return None if array is None else cls(array.dtype.str, tuple(array.tolist()))

    def array(self) -> np.ndarray:
        """Return the array."""
        return np.array(self.values, dtype=np.dtype(self.dtype))


@dataclass(frozen=True)
class StoredEstimator:
    """The content of `estimator.json`."""

    params: Mapping[str, Any]
    classes: Values | None
    domains: Values | None
    kind: Kind
    n_features_in: int | None
    feature_names_in: tuple[str, ...] | None
    history: tuple[Mapping[str, Any], ...]


@dataclass(eq=False, repr=False)
class ShiftproofEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the classifier and the regressor.

    A subclass converts `y` to labels and calls `_train`, and converts the model outputs to
    predictions.
    """

    task: ClassVar[TaskKind]

    algorithm: str | BaseEstimator | None = None
    _: KW_ONLY
    backbone: str | None = None
    hparams: Mapping[str, object] | None = None
    steps: int = 1000
    selection: str = "last"
    holdout: float | None = None
    precision: str = "fp32"
    standardize: str = "none"
    image_size: int = 224
    augment: bool = True
    device: str = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    def _train(
        self,
        X: Any,
        labels: Any,
        sample_domain: Any,
        sample_weight: Any,
        classes: Sequence[str] = (),
    ) -> None:
        """Train on samples `X` with labels, and set the fitted attributes that the tasks share."""
        kind, x = self._validated(X, reset=True)
        check_consistent_length(x, labels)
        algorithm = self._algorithm(kind)
        domains = domains_of(algorithm, sample_domain, len(x))
        check_consistent_length(x, domains.labels)
        view = {"image_size": self.image_size, "augment": self.augment}
        name = algorithm if isinstance(algorithm, str) else title(algorithm)
        reporter = Reporter(name, self.steps, verbose=self.verbose)
        dataset = dataset_of(
            kind,
            x,
            labels,
            domains.labels,
            task=self.task,
            classes=classes,
            view=resolve(ImageView, "large-image", view, "option"),
            progress=reporter.loading,
            weight=weights_of(sample_weight, len(x)),
        )
        dataset = within_domains(dataset, self.standardize)
        params = {**self.get_params(deep=False), "algorithm": algorithm}
        model, history = train_model(params, dataset, reporter)
        self._kind: Kind = kind
        self.domains_: np.ndarray | None = None if sample_domain is None else domains.values
        self.records_: list[dict[str, Any]] = history
        self.model_: TrainedModel = model

    @property
    def history_(self) -> pd.DataFrame:
        """The training records as a data frame."""
        import pandas as pd

        check_is_fitted(self, "model_")
        return pd.json_normalize(self.records_, sep=" ")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also each given hyper-parameter as `hparams__lr`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.hparams, Mapping):
            params |= {f"{HPARAMS}{name}": value for name, value in self.hparams.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `hparams__lr=0.1` sets one hyper-parameter and leaves the others."""
        single = {name: params.pop(name) for name in list(params) if name.startswith(HPARAMS)}
        super().set_params(**params)
        if single:
            given = {name.removeprefix(HPARAMS): value for name, value in single.items()}
            self.hparams = {**(self.hparams or {}), **given}
        return self

    def _set_classes(self, classes: np.ndarray) -> None:
        """Set the classes of a loaded estimator; a regressor has none."""

    def typicality(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return how typical each sample is of the training domains, [n], from 0 to 1.

        A new sample of the training domains has a typicality below α with probability at most α.
        Below 0.01, a sample is unlike the training data, and its prediction is a guess.
        """
        typicality: np.ndarray = self._predicted(X, sample_domain).typicality
        return typicality

    def _predicted(self, given: Any, sample_domain: Any) -> Any:
        """Return the predictions of the model."""
        check_is_fitted(self, "model_")
        with value_errors():
            _, x = self._validated(given, reset=False)
            sites = None
            if sample_domain is not None:
                sites = names_of(sample_domain, "sample_domain").labels
            classifies = self.task == CLASSIFICATION
            predict = self.model_.predict if classifies else self.model_.predict_numbers
            return predict(self.model_.form.read(x), sites=sites)

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator to a folder, which `shiftproof predict` can also read."""
        check_is_fitted(self, "model_")
        folder, seed, algorithm = Path(folder), self.random_state, self.algorithm
        with value_errors():
            if isinstance(seed, np.random.RandomState):
                seed = self.model_.config.seed
            if not (algorithm is None or isinstance(algorithm, str)):
                algorithm = {"skops": base64.b64encode(dumped(clone(algorithm))).decode()}
            features = getattr(self, "feature_names_in_", None)
            stored = StoredEstimator(
                {**self.get_params(deep=False), "random_state": seed, "algorithm": algorithm},
                Values.of(getattr(self, "classes_", None)),
                Values.of(self.domains_),
                self._kind,
                getattr(self, "n_features_in_", None),
                None if features is None else tuple(features),
                tuple(self.records_),
            )
            try:
                text = json.dumps(with_format(vars(stored)), indent=2, default=_plain)
            except TypeError as error:
                raise InvalidValue(f"the estimator cannot be saved: {error}") from error
            # Last, so that the estimator file never describes another model.
            (folder / FILE).unlink(missing_ok=True)
            self.model_.save(folder)
            write_atomically(folder / FILE, text.encode() + b"\n")

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", *, trust: bool = False) -> Self:
        """Load a saved estimator, or a run or study of the command line.

        Loading executes no code from the files, unless they hold a scikit-learn estimator; that is
        loaded only with `trust`, because it may run code.
        """
        with value_errors():
            folder = run_in(Path(folder))
            if not (folder / FILE).is_file():
                return cls._of_run(folder, device, trust=trust)
            names = sorted(field.name for field in fields(StoredEstimator))
            content = read_json(folder / FILE, names, "save the estimator again")
            with _damaged(folder):
                stored: StoredEstimator = rebuilt(StoredEstimator, content, FILE)
                model = cls._model(folder, device, trust=trust)
                params = {**stored.params, "device": device}
                if isinstance(params["algorithm"], Mapping):
                    skops = base64.b64decode(params["algorithm"]["skops"])
                    params["algorithm"] = loaded(skops, trust=trust)
                estimator = cls(**params)
                classes = np.array([]) if stored.classes is None else stored.classes.array()
                if sorted(texts_of(classes, "y")) != sorted(model.classes):
                    raise ValueError("its classes are not those of the model")
                estimator._set_classes(classes)
                domains = stored.domains
                estimator.domains_ = None if domains is None else domains.array()
        estimator.model_, estimator._kind = model, stored.kind
        estimator.records_ = [dict(record) for record in stored.history]
        if stored.n_features_in is not None:
            estimator.n_features_in_ = stored.n_features_in
        if stored.feature_names_in is not None:
            estimator.feature_names_in_ = np.array(stored.feature_names_in, dtype=object)
        return estimator

    @classmethod
    def _of_run(cls, folder: Path, device: str, *, trust: bool) -> Self:
        """Return the estimator of a finished run of `shiftproof train` or `study`."""
        if not ((folder / MODEL).is_file() and (folder / "config.json").is_file()):
            raise CheckpointError(f"{folder} holds no {FILE}; give a folder written by save()")
        model = cls._model(folder, device, trust=trust)
        config = model.config
        named = config.algorithm != ESTIMATOR
        estimator = cls(
            config.algorithm if named else None,
            hparams=dict(config.hparams) if named else None,
            steps=config.steps,
            standardize=config.standardize,
            device=device,
        )
        estimator._set_classes(np.array(model.classes))
        estimator.domains_ = np.array(model.domains)
        estimator.model_, estimator.records_ = model, Records(folder / "records.jsonl").read()
        estimator._kind = kind_of_form(model.form)
        if isinstance(model.form, TableForm):
            names = [column.name for column in model.form.columns.columns.columns]
            estimator.n_features_in_ = len(names)
            estimator.feature_names_in_ = np.array(names, dtype=object)
        return estimator

    @classmethod
    def _model(cls, folder: Path, device: str, *, trust: bool) -> TrainedModel:
        """Return the model in a folder, or raise if it is for another kind of task."""
        model = TrainedModel.load(folder, device, trust=trust)
        if model.task.kind != cls.task:
            raise DataError(f"{folder} holds a model of {model.task.kind}, not of {cls.task}")
        return model

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        named = self.algorithm is None or isinstance(self.algorithm, str)
        tags.input_tags.allow_nan = named or get_tags(self.algorithm).input_tags.allow_nan
        return tags

    def _algorithm(self, kind: Kind) -> str | BaseEstimator:
        """Return the algorithm: the parameter, or the default for this kind of inputs."""
        if self.algorithm is None:
            return default_algorithm(images=kind not in TABLES, kind=self.task)
        return self.algorithm

    def _validated(self, given: Any, *, reset: bool) -> tuple[Kind, Any]:
        """Return the kind of the inputs, and the validated inputs.

        `reset` is for fitting; otherwise the inputs must match those of the fit.
        """
        kind, x = recognised(given)
        fitted = kind if reset else self._kind
        if kind != fitted and not {kind, fitted} <= TABLES:
            raise DataError(
                f"`X` is {KINDS[kind]}, but the estimator was fitted to {KINDS[fitted]}"
            )
        if fitted not in TABLES:
            if reset:
                for name in {"n_features_in_", "feature_names_in_"} & vars(self).keys():
                    delattr(self, name)
            return kind, x
        if kind == fitted == "frame":
            return kind, validate_data(self, x, reset=reset, skip_check_array=True)
        x = validate_data(self, x, reset=reset, ensure_all_finite="allow-nan")
        if fitted == "frame":
            import pandas as pd

            x = pd.DataFrame(x, columns=getattr(self, "feature_names_in_", None))
        return kind, x


@contextlib.contextmanager
def _damaged(folder: Path) -> Iterator[None]:
    """Convert errors about values in an estimator file to a `CheckpointError` of one line."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, ShiftproofError):
            raise
        reason = reason_of(error)
        raise CheckpointError(
            f"{folder / FILE} is damaged ({reason}); save the estimator again"
        ) from error


def _plain(value: Any) -> Any:
    """Return a dataclass, or a NumPy number or array, as JSON values."""
    if isinstance(value, Values):
        return vars(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written")
