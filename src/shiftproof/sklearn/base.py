"""The base class of the estimators: parameters, inputs, training, and files."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from shiftproof.core.errors import CheckpointError, DataError, InvalidValue, ShiftproofError
from shiftproof.core.files import read_json, write_atomically
from shiftproof.core.json_values import conform
from shiftproof.core.migrations import with_format
from shiftproof.core.space import resolve
from shiftproof.core.text import reason_of
from shiftproof.core.types import Kind as TaskKind
from shiftproof.data.images.files import ImageView
from shiftproof.data.input_forms import TableForm
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model import NumberPredictions, Predictions, TrainedModel
from shiftproof.inference.model_file import MODEL, run_in
from shiftproof.learners.estimator import ESTIMATOR, dumped, loaded, title
from shiftproof.sklearn.inputs import (
    KINDS,
    Kind,
    Names,
    as_numpy,
    dataset_of,
    domains_of,
    kind_of_form,
    recognised,
    weights_of,
)
from shiftproof.sklearn.run import Reporter, train_model, value_errors
from shiftproof.training.configure import default_algorithm
from shiftproof.training.records import Records

if TYPE_CHECKING:
    import pandas as pd


# The file of an estimator's own data, next to its model.
FILE = "estimator.json"
KEYS = frozenset(
    ["params", "classes", "domains", "kind", "n_features_in", "feature_names_in", "history"]
)
_TYPES: dict[str, Any] = {
    "params": Mapping[str, Any],
    "kind": Kind,
    "n_features_in": int | None,
    "history": tuple[Mapping[str, Any], ...],
}
# The prefix of a parameter that sets a single hyper-parameter.
HPARAMS = "hparams__"
# The tabular kinds of inputs.
TABLES = {"table", "frame"}


class ShiftproofEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the classifier and the regressor.

    A subclass converts `y` to labels and calls `_train`, converts the model outputs to predictions,
    and defines which additional attributes to store.
    """

    task: ClassVar[TaskKind]
    domains_: np.ndarray | None
    records_: list[dict[str, Any]]
    model_: TrainedModel
    _kind: Kind

    def __init__(
        self,
        algorithm: str | BaseEstimator | None = None,
        *,
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
        self.algorithm = algorithm
        self.backbone = backbone
        self.hparams = hparams
        self.steps = steps
        self.selection = selection
        self.holdout = holdout
        self.precision = precision
        self.standardize = standardize
        self.image_size = image_size
        self.augment = augment
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

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
        domains, where = domains_of(algorithm, sample_domain, len(x))
        check_consistent_length(x, where)
        view = {"image_size": self.image_size, "augment": self.augment}
        name = algorithm if isinstance(algorithm, str) else title(algorithm)
        reporter = Reporter(name, self.steps, verbose=self.verbose)
        dataset = dataset_of(
            kind,
            x,
            labels,
            [domains.texts[code] for code in where],
            task=self.task,
            classes=classes,
            view=resolve(ImageView, "large-image", view, "option"),
            progress=reporter.loading,
            weight=weights_of(sample_weight, len(x)),
        )
        dataset = within_domains(dataset, self.standardize)
        params = {**self.get_params(deep=False), "algorithm": algorithm}
        model, history = train_model(params, dataset, reporter)
        self._kind = kind
        self.domains_ = None if sample_domain is None else domains.values
        self.records_ = history
        self.model_ = model

    @property
    def history_(self) -> pd.DataFrame:
        """The training records as a data frame."""
        import pandas as pd

        check_is_fitted(self, "model_")
        return pd.json_normalize(self.records_, sep=" ")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also each given hyper-parameter as `hparams__lr`."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.hparams, Mapping):
            found |= {f"{HPARAMS}{name}": value for name, value in self.hparams.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `hparams__lr=0.1` sets one hyper-parameter and leaves the others."""
        single = {name: params.pop(name) for name in list(params) if name.startswith(HPARAMS)}
        super().set_params(**params)
        if single:
            given = {name.removeprefix(HPARAMS): value for name, value in single.items()}
            self.hparams = {**(self.hparams or {}), **given}
        return self

    def _inputs(self, given: Any, sample_domain: Any) -> tuple[Any, list[str] | None]:
        """Return the inputs in the form of the model, and the site of each, if given."""
        _, x = self._validated(given, reset=False)
        sites = None
        if sample_domain is not None:
            names, where = Names.of(as_numpy(sample_domain), "sample_domain")
            sites = [names.texts[code] for code in where]
        return self.model_.form.read(x), sites

    def _stored_classes(self) -> dict[str, Any] | None:
        """Return the classes as JSON values, or None if there are none."""
        return None

    def _restore(self, described: Mapping[str, Any], model: TrainedModel) -> None:
        """Restore what `_stored_classes` returned, or raise `ValueError` if it does not fit."""

    def typicality(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return how typical each sample is of the training domains, [n], from 0 to 1.

        A new sample of the training domains has a typicality below α with probability at most α.
        Below 0.01, a sample is unlike the training data, and its prediction is a guess.
        """
        return self._predicted(X, sample_domain).typicality

    def _predicted(self, given: Any, sample_domain: Any) -> Predictions | NumberPredictions:
        """Return the predictions of the model."""
        raise NotImplementedError

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator to a folder, which `shiftproof predict` can also read."""
        check_is_fitted(self, "model_")
        with value_errors():
            seed = self.random_state
            if isinstance(seed, np.random.RandomState):
                seed = self.model_.config.seed
            params = {**self.get_params(deep=False), "random_state": seed}
            described = {
                "params": {**params, "algorithm": stored_algorithm(self.algorithm)},
                "classes": self._stored_classes(),
                "domains": None if self.domains_ is None else Names(self.domains_, ()).to_json(),
                "kind": self._kind,
                "n_features_in": getattr(self, "n_features_in_", None),
                "feature_names_in": getattr(self, "feature_names_in_", None),
                "history": self.records_,
            }
            write_fitted(Path(folder), self.model_, described)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto", *, trust: bool = False) -> Self:
        """Load a saved estimator, or a run or study of the command line.

        Loading executes no code from the files, unless they hold a scikit-learn estimator; that is
        loaded only with `trust`, because it may run code.
        """
        with value_errors():
            folder = run_in(Path(folder))
            if is_run(folder):
                return cls._of_run(folder, device, trust=trust)
            model, described = read_fitted(folder, device, trust=trust)
            cls._of_this_kind(model, folder)
            with damaged_estimator(folder):
                params = {**described["params"], "device": device}
                estimator = cls(
                    **{**params, "algorithm": read_algorithm(params["algorithm"], trust=trust)}
                )
                estimator._restore(described, model)
                domains = described["domains"]
                estimator.domains_ = domains and Names.from_json(domains, "sample_domain").values
        estimator.model_ = model
        estimator._kind = described["kind"]
        estimator.records_ = described["history"]
        if described["n_features_in"] is not None:
            estimator.n_features_in_ = described["n_features_in"]
        if described["feature_names_in"] is not None:
            estimator.feature_names_in_ = np.array(described["feature_names_in"], dtype=object)
        return estimator

    @classmethod
    def _of_run(cls, folder: Path, device: str, *, trust: bool) -> Self:
        """Return the estimator of a finished run of `shiftproof train` or `study`."""
        model = cls._of_this_kind(TrainedModel.load(folder, device, trust=trust), folder)
        config = model.config
        own = None if config.algorithm == ESTIMATOR else config.algorithm
        given = None if own is None else dict(config.hparams)
        found = cls(
            own, hparams=given, steps=config.steps, standardize=config.standardize, device=device
        )
        found._of_model(model)
        found.domains_ = np.array(model.domains)
        found.model_, found.records_ = model, Records(folder / "records.jsonl").read()
        found._kind = kind_of_form(model.form)
        if isinstance(model.form, TableForm):
            names = [column.name for column in model.form.columns.columns.columns]
            found.n_features_in_ = len(names)
            found.feature_names_in_ = np.array(names, dtype=object)
        return found

    @classmethod
    def _of_this_kind(cls, model: TrainedModel, folder: str | Path) -> TrainedModel:
        """Return the model, or raise if it is for another kind of task."""
        if model.task.kind != cls.task:
            raise DataError(f"{folder} holds a model of {model.task.kind}, not of {cls.task}")
        return model

    def _of_model(self, model: TrainedModel) -> None:
        """Set the attributes about labels from a model of the command line."""

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


def write_fitted(folder: Path, model: TrainedModel, described: dict[str, Any]) -> None:
    """Write both files, the estimator file last, so that it never describes another model."""
    try:
        text = json.dumps(with_format(described), indent=2, default=_plain)
    except TypeError as error:
        raise InvalidValue(f"the estimator cannot be saved: {error}") from error
    (folder / FILE).unlink(missing_ok=True)
    model.save(folder)
    write_atomically(folder / FILE, text.encode() + b"\n")


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a finished run: a model, but no estimator."""
    has_model = (folder / MODEL).is_file() and (folder / "config.json").is_file()
    return has_model and not (folder / FILE).is_file()


def read_fitted(folder: Path, device: str, *, trust: bool) -> tuple[TrainedModel, dict[str, Any]]:
    """Read what `write_fitted` wrote; a scikit-learn estimator only with `trust`."""
    path = folder / FILE
    if not path.is_file():
        raise CheckpointError(f"{folder} holds no {FILE}; give a folder written by save()")
    described = read_json(path, sorted(KEYS), "save the estimator again")
    with damaged_estimator(folder):
        for name, kind in _TYPES.items():
            conform(described[name], kind, name)
    return TrainedModel.load(folder, device, trust=trust), described


@contextlib.contextmanager
def damaged_estimator(folder: Path) -> Iterator[None]:
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


def stored_algorithm(algorithm: Any) -> Any:
    """Return the parameter `algorithm` as JSON: a name, None, or an estimator stored by skops."""
    if algorithm is None or isinstance(algorithm, str):
        return algorithm
    return {"skops": base64.b64encode(dumped(clone(algorithm))).decode()}


def read_algorithm(value: Any, *, trust: bool) -> Any:
    """Rebuild what `stored_algorithm` returned; an estimator only with `trust`."""
    if value is None or isinstance(value, str):
        return value
    return loaded(base64.b64decode(value["skops"]), trust=trust)


def _plain(value: Any) -> Any:
    """Return a NumPy number or array as JSON values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written")
