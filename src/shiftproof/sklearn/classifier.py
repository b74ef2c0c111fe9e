"""`ShiftproofClassifier`: every algorithm behind scikit-learn's `fit` and `predict`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils import Tags, get_tags  # type: ignore[import-untyped]
from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
    check_classification_targets,
)
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from shiftproof.core.errors import DataError
from shiftproof.core.space import resolve
from shiftproof.data.images.files import ImageView
from shiftproof.data.input_forms import TableForm
from shiftproof.data.within_domain import within_domains
from shiftproof.inference.model import Predictions, TrainedModel
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.estimator import ESTIMATOR, title
from shiftproof.sklearn.inputs import (
    KINDS,
    Kind,
    as_numpy,
    dataset_of,
    kind_of_form,
    recognised,
)
from shiftproof.sklearn.messages import Reporter, value_errors
from shiftproof.sklearn.names import Names
from shiftproof.sklearn.run import train_model
from shiftproof.sklearn.stored import (
    damaged_estimator,
    is_run,
    read_algorithm,
    read_fitted,
    require_classes,
    stored_algorithm,
    write_fitted,
)
from shiftproof.training.config import default_algorithm
from shiftproof.training.records import Records

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

# The beginning of a parameter that is one hyper-parameter.
HPARAMS = "hparams__"
# The name of the single domain if no domains are given.
ONE_DOMAIN = "all"
# Algorithms of these families do not compare domains, so they need none.
WITHOUT_DOMAINS = ("baseline", "exact")
# The kinds of inputs that are rows of columns.
TABLES = {"table", "frame"}


class ShiftproofClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train a classifier on several domains that holds up in a new one.

    `fit(X, y, sample_domain=…)` takes the domain of each sample: the hospital, camera, year or
    style that it comes from.  `predict` needs no domains.

    `X` is a table [n, features] (array, tensor or list; NaN is a missing value), a pandas data
    frame (text and categories too), images [n, channels, height, width] (uint8, or numbers in
    [0, 1]), or a list of paths of image files.  Tables are imputed and standardised with the
    statistics of the training part, so no scaler is needed before this estimator.

    Parameters
    ----------
    algorithm
        A name that `shiftproof algorithms` lists, or a scikit-learn classifier or pipeline of your
        own.  It gets a data frame's columns by their names, and the labels as texts; it is cloned.
        By default `best` for tables and `idm-auto` for images, as in `shiftproof.train`.
    backbone
        The network; by default `mlp` for tables, `mnist-cnn` for images up to 64 pixels,
        `resnet18` for larger ones and `resnet50` for image files.  The last two start from
        pretrained weights, which are downloaded unless `hparams={"weights": …}` is a file or
        `"random"`.
    hparams
        Hyper-parameters of the algorithm or the backbone that replace the published defaults.
    steps
        Number of updates of a network; each takes `batch_size` samples (64 of a table) from every
        domain.  The published defaults are for 5,001 steps.  Those that count steps, such as IDM's
        warm-up of 1,500, are scaled to the number here (1,500 → 300 in 1,000 steps) unless
        `hparams` sets them; `model_.config.hparams` holds the values used.
    selection
        Which weights to predict with: the `last`; those with the lowest risk on the held-out parts
        of the training domains (`training-domain`); an exponential moving average (`ema`); or
        SWAD's average over the steps where that risk is low (`swad`).
    holdout
        The share of each domain to hold out of training.  It serves to select weights, to fill
        `history_` and to tell how unusual an input is (`typicality`).  0 trains on all samples.  By
        default 0.2, and 0 for what is fitted at once, such as `best`.
    precision
        `fp32` or `bf16`.
    standardize
        `domain` standardises the numbers of each domain by its own rows, and those of a new one by
        the rows given to `predict`; `whiten` and `auto` as in `shiftproof.train`.
    image_size, augment
        For image files: height and width, and whether to train on random crops, flips and colours.
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
        A data frame, one row a record of training: losses, and accuracy and risk on the held-out
        parts.  `records_` is the same as dictionaries.
    model_
        The trained model; after `save`, `shiftproof predict` can read it too.
    n_features_in_, feature_names_in_
        For a table: the number of its columns, and their names.
    """

    classes_: np.ndarray
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

    def fit(self, X: Any, y: Any, sample_domain: Any = None, **other: Any) -> Self:
        """Train on samples `X` with labels `y` and their domains `sample_domain`.

        Without domains, only what does not compare domains can be trained: `best` and all that is
        fitted at once, which is then judged by random parts of the samples, and `erm`.
        """
        with value_errors():
            _require_none_of(other)
            targets = validate_data(self, y=as_numpy(y))
            check_classification_targets(targets)
            classes, which = Names.of(targets, "y")
            kind, x = self._validated(X, reset=True)
            check_consistent_length(x, targets)
            if len(classes.texts) == 1:
                raise DataError(
                    f"`y` has only one class, {classes.texts[0]!r}, in all {len(targets)} samples;"
                    " a classifier needs at least two"
                )
            algorithm = self._algorithm(kind)
            domains, where = _domains(algorithm, sample_domain, len(x))
            check_consistent_length(x, where)
            view = {"image_size": self.image_size, "augment": self.augment}
            name = algorithm if isinstance(algorithm, str) else title(algorithm)
            reporter = Reporter(name, self.steps, verbose=self.verbose)
            dataset = dataset_of(
                kind,
                x,
                [classes.texts[code] for code in which],
                [domains.texts[code] for code in where],
                classes=classes.texts,
                view=resolve(ImageView, "large-image", view, "option"),
                progress=reporter.loading,
            )
            dataset = within_domains(dataset, self.standardize)
            params = {**self.get_params(deep=False), "algorithm": algorithm}
            model, history = train_model(params, dataset, reporter)
        self._kind = kind
        self.classes_ = classes.values
        self.domains_ = None if sample_domain is None else domains.values
        self.records_ = history
        self.model_ = model
        return self

    @property
    def history_(self) -> pd.DataFrame:
        """The records of training as a data frame."""
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

    def predict(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the most probable class of each sample, in the type of `y`.

        `sample_domain` is only for `standardize`: without it, all samples are of one domain.
        """
        likely = self.predict_proba(X, sample_domain).argmax(axis=1)
        return np.asarray(self.classes_[likely])

    def predict_proba(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return the probability of each class, [n, classes] in the order of `classes_`."""
        found = self._predicted(X, sample_domain)
        names, _ = Names.of(self.classes_, "y")
        order = [self.model_.classes.index(text) for text in names.texts]
        return found.probabilities.numpy()[:, order]

    def typicality(self, X: Any, sample_domain: Any = None) -> np.ndarray:
        """Return how typical each sample is of the training domains, [n], from 0 to 1.

        A new sample of the training domains is below α with probability at most α.  A sample below
        0.01 is unlike the training data, and its prediction is a guess.
        """
        return np.asarray(self._predicted(X, sample_domain).typicality)

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
                "classes": Names(self.classes_, ()).to_json(),
                "domains": None if self.domains_ is None else Names(self.domains_, ()).to_json(),
                "kind": self._kind,
                "n_features_in": getattr(self, "n_features_in_", None),
                "feature_names_in": getattr(self, "feature_names_in_", None),
                "history": self.records_,
            }
            write_fitted(Path(folder), self.model_, described)

    @classmethod
    def load(cls, folder: str | Path, device: str = "auto") -> Self:
        """Load what `save` wrote, or a run of the command line; no code in the files is run."""
        with value_errors():
            if is_run(Path(folder)):
                return cls._of_run(Path(folder), device)
            model, described = read_fitted(Path(folder), device)
            with damaged_estimator(Path(folder)):
                params = {**described["params"], "device": device}
                estimator = cls(**{**params, "algorithm": read_algorithm(params["algorithm"])})
                names = Names.from_json(described["classes"], "y")
                require_classes(names.texts, model)
                estimator.classes_ = names.values
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
    def _of_run(cls, folder: Path, device: str) -> Self:
        """Return the estimator of a finished run of `shiftproof train` or `study`."""
        model = TrainedModel.load(folder, device)
        config = model.config
        own = None if config.algorithm == ESTIMATOR else config.algorithm
        given = None if own is None else dict(config.hparams)
        found = cls(
            own, hparams=given, steps=config.steps, standardize=config.standardize, device=device
        )
        found.classes_ = np.array(model.classes)
        found.domains_ = np.array(model.domains)
        found.model_, found.records_ = model, Records(folder / "records.jsonl").read()
        found._kind = kind_of_form(model.form)
        if isinstance(model.form, TableForm):
            names = [column.name for column in model.form.columns.columns.columns]
            found.n_features_in_ = len(names)
            found.feature_names_in_ = np.array(names, dtype=object)
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        named = self.algorithm is None or isinstance(self.algorithm, str)
        tags.input_tags.allow_nan = named or get_tags(self.algorithm).input_tags.allow_nan
        return tags

    def _algorithm(self, kind: Kind) -> str | BaseEstimator:
        """Return what to train: the parameter, or the default for this kind of inputs."""
        if self.algorithm is None:
            return default_algorithm(images=kind not in TABLES)
        return self.algorithm

    def _validated(self, given: Any, *, reset: bool) -> tuple[Kind, Any]:
        """Return the kind of the inputs, and the validated inputs.

        `reset` is for fitting; otherwise they must match those of the fit.
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

    def _predicted(self, given: Any, sample_domain: Any) -> Predictions:
        check_is_fitted(self, "model_")
        with value_errors():
            _, x = self._validated(given, reset=False)
            sites = None
            if sample_domain is not None:
                names, where = Names.of(as_numpy(sample_domain), "sample_domain")
                sites = [names.texts[code] for code in where]
            return self.model_.predict(self.model_.form.read(x), sites=sites)


def _require_none_of(other: Mapping[str, Any]) -> None:
    """Raise for keywords that other estimators take, with what this one takes instead."""
    for name in other:
        if name in ("groups", "domains", "domain", "sites", "environments"):
            raise DataError(f"`fit` has no {name!r}; the domain of each sample is `sample_domain`")
        if name == "sample_weight":
            raise DataError("`fit` takes no 'sample_weight'; repeat rows, or leave it out")
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}")


def _domains(
    algorithm: str | BaseEstimator, sample_domain: Any, samples: int
) -> tuple[Names, np.ndarray]:
    """Return the domains, and the domain of each sample."""
    named = isinstance(algorithm, str)  # an estimator of the user's needs no domains
    compares = named and ALGORITHMS.get(algorithm).family not in WITHOUT_DOMAINS
    advice = '`algorithm="erm"` does not use domains'
    if sample_domain is None:
        if compares:
            raise DataError(
                f"{algorithm} compares domains and needs the domain of each sample"
                " (hospital, camera, year), as in fit(X, y, sample_domain=hospitals);"
                f" without any, {advice}"
            )
        return Names.of([ONE_DOMAIN] * samples, "sample_domain")
    domains, where = Names.of(as_numpy(sample_domain), "sample_domain")
    if compares and len(domains.texts) == 1:
        raise DataError(
            f"{algorithm} compares domains, and all {len(where)} samples are from one,"
            f" {domains.texts[0]!r}; give samples of at least two, or {advice}"
        )
    return domains, where
