"""Trained models: one file with everything needed to predict, and nothing used only in training.

The file has the weights that the run scores, a description of the training domains
(`inference.typicality`), and a header with the classes, the domains and the input form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

import shiftproof
from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.files import write_atomically
from shiftproof.core.standardize import ADAPTATION, NONE
from shiftproof.core.text import listed
from shiftproof.core.types import CLASSIFICATION, Task
from shiftproof.data import Domain
from shiftproof.data.base import Progress, silent
from shiftproof.data.domain import LazyInputs, TensorLike, as_array, as_float_rows
from shiftproof.data.input_forms import (
    InputForm,
    Inputs,
    ReadyInputs,
    TableForm,
    as_ready,
    form_from_json,
)
from shiftproof.data.within_domain import NEW_SITE
from shiftproof.inference.adaptation.label_shift import Adapted, LabelShift, adapted, checked_adapt
from shiftproof.inference.adaptation.recalibrate import Recalibration, Update, recalibrated
from shiftproof.inference.conformal import HalfWidths, Width
from shiftproof.inference.model_file import MODEL, model_bytes, read_model, valid_model, why_missing
from shiftproof.inference.typicality import Typicality
from shiftproof.learners.array_model import under
from shiftproof.learners.base import ALGORITHMS
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.exact import Exact
from shiftproof.training.config import RunConfig
from shiftproof.training.evaluation_sets import EvaluationSet, batches_of
from shiftproof.training.fitting import build_exact
from shiftproof.training.load_run import without_starting_weights
from shiftproof.training.run_folder import RunFolder, add_file

if TYPE_CHECKING:
    from shiftproof.inference.predictor import Predictor

# The prefixes of the names of the arrays in a model file.
NETWORK, MEMBERS, TYPICALITY = PREFIXES = ("network.", "members.", "typicality.")


@dataclass(frozen=True, eq=False)
class AnyPredictions:
    """How typical each input is of the training domains [n], and whether it is far [n]."""

    typicality: np.ndarray
    far: np.ndarray

    @property
    def far_share(self) -> float:
        """The share of inputs that are far."""
        return float(self.far.mean())


@dataclass(frozen=True, eq=False)
class Predictions(AnyPredictions):
    """Class probabilities [n, c], typicality of each input [n], and whether it is far.

    `adapted` describes the adaptation to each site; it is empty if adaptation was not requested.
    """

    probabilities: np.ndarray
    adapted: Mapping[str, Adapted] = field(default_factory=dict)

    @property
    def predicted(self) -> np.ndarray:
        """The index of the most probable class, [n]."""
        likely: np.ndarray = self.probabilities.argmax(axis=1)
        return likely


@dataclass(frozen=True, eq=False)
class NumberPredictions(AnyPredictions):
    """Predicted numbers [n] in the units of the labels, typicality [n], and which are far [n]."""

    values: np.ndarray


class RowPredictor:
    """Map from rows [n, …] to representations for typicality, and probabilities or numbers."""

    # No network computes features, and the learner calibrates itself.
    stem = None
    temperature = 1.0

    def __init__(self, algorithm: Exact) -> None:
        self.algorithm = algorithm

    def answers(
        self,
        subset: EvaluationSet,
        form: InputForm,
        device: str,
        workers: int | None = None,
        *,
        answered: bool = True,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield representations, and probabilities or numbers in label units, batch by batch.

        The probabilities or numbers are left out unless `answered`.
        """
        for rows in batches_of(subset):
            x = np.asarray(subset.domain.rows(rows))
            seen = form.features(x) if isinstance(form, TableForm) else x.reshape(len(x), -1)
            outputs = np.empty((len(x), 0))
            if answered:
                outputs = self.algorithm.predict(as_float_rows(x)).astype(np.float32)
                outputs = outputs.astype(np.float64)
                if (task := self.algorithm.task).kind == CLASSIFICATION:
                    outputs = np.exp(log_softmax(outputs, axis=1)).astype(np.float32)
                else:
                    outputs = task.in_units(outputs)
            yield as_float_rows(seen), outputs

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights of networks, of which there are none."""
        return {}


def without_labels(inputs: Inputs) -> EvaluationSet:
    """Return all inputs as samples of one domain, with labels 0 that are not used."""
    domain = Domain("inputs", inputs, np.zeros(len(inputs), dtype=np.int64))
    return EvaluationSet(domain.name, domain, np.arange(len(domain)))


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, with everything needed to predict.

    `task` is the task of the algorithm, `domains` are the training domains, and `columns` names
    the table columns with the label, the domain and the images.  The model predicts in fp32,
    whatever the precision in training.  A regression model has `targets`, the name of the
    predicted number; a classifier has `classes` instead.  `half_widths` are the half-widths of
    prediction intervals, and `held_out_accuracy` the accuracies on training domains, both available
    if training domains were held out to choose settings.  A model without a
    `typicality` cannot detect inputs unlike the training data: their typicality is NaN.
    """

    config: RunConfig
    task: Task
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    form: InputForm
    network: Predictor | RowPredictor
    typicality: Typicality | None
    columns: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"
    label_shift: LabelShift | None = None
    update: Update | None = None
    targets: tuple[str, ...] = ()
    half_widths: HalfWidths | None = None
    held_out_accuracy: Mapping[str, float] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The name of the predicted number; empty for a classifier."""
        return self.targets[0] if self.targets else ""

    @property
    def temperature(self) -> float:
        """The temperature of the logits, fitted to held-out samples of the training domains."""
        return self.network.temperature

    def predict(
        self,
        inputs: Inputs | Any,
        *,
        adapt: str = "none",
        sites: Sequence[str] | None = None,
        workers: int | None = None,
        progress: Progress = silent,
    ) -> Predictions:
        """Return predictions for new inputs.

        Args:
            inputs: a data frame with the columns of the training table, an array, paths of image
                files, or a tensor of preprocessed inputs, [n, *input_shape].
            adapt: `auto` corrects the probabilities for the class shares of the new site, estimated
                from all its rows, as far as these differ from training by more than their error.
            sites: the site of each input, if there are several sites.  Each site is adapted
                separately, and a model trained with `standardize` uses the mean and standard
                deviation of each site's own inputs.
            workers: number of threads that load images.
            progress: called with the number of inputs predicted so far.
        """
        how = checked_adapt(adapt)
        if self.target:
            raise InvalidValue(
                f"the model predicts a number, {self.target}, not classes: use predict_numbers"
            )
        if how != "none" and self.update is not None:
            raise InvalidValue(
                "`adapt` is for trained models; this one is recalibrated to its site"
            )
        sites, *parts = self._predicted(inputs, sites, workers, progress)
        plain = Predictions(*parts)
        if how == "none":
            return plain
        chances = plain.probabilities
        names = np.array([NEW_SITE] * len(chances) if sites is None else list(sites), dtype=object)
        by_site = {}
        for site in dict.fromkeys(names):
            rows = np.flatnonzero(names == site)
            typicality = plain.typicality[rows] if self.typicality else None
            before = chances[rows].astype(np.float64)
            by_site[str(site)] = adapted(self.label_shift, before, typicality)
            chances[rows] = by_site[str(site)].probabilities.astype(chances.dtype)
        return replace(plain, adapted=by_site)

    def predict_numbers(
        self,
        inputs: Inputs | Any,
        *,
        sites: Sequence[str] | None = None,
        workers: int | None = None,
        progress: Progress = silent,
    ) -> NumberPredictions:
        """Return predicted numbers for new inputs, in any form that `predict` accepts."""
        if not self.target:
            raise InvalidValue("the model predicts classes, not a number: use predict")
        _, *parts = self._predicted(inputs, sites, workers, progress)
        return NumberPredictions(*parts)

    def half_width(self, level: float) -> Width:
        """Return the half-width q of the prediction intervals ŷ ± q.

        At a new domain, an interval contains the true number with probability `level`.

        The half-widths come from training domains held out in training; only models that are
        fitted at once have them.
        """
        if self.half_widths is None:
            raise InvalidValue(
                "this model stores no interval widths; give `expected`, the folder of runs that"
                " hold out each domain in turn"
            )
        return self.half_widths.half_width(level)

    def _predicted(
        self,
        inputs: Inputs | Any,
        sites: Sequence[str] | None,
        workers: int | None,
        progress: Progress,
    ) -> tuple[Any, ...]:
        """Return the sites if known, typicality, far inputs, and probabilities or numbers."""
        if len(inputs) == 0:
            raise DataError("there is nothing to predict: the inputs are empty")
        if isinstance(inputs, TensorLike):
            inputs = as_ready(as_array(inputs))
        if not isinstance(inputs, ReadyInputs | LazyInputs):
            column = self.columns.get("domain")
            if sites is None and self.standardized and column in getattr(inputs, "columns", ()):
                sites = [str(value) for value in inputs[column]]
            inputs = self.form.read([inputs] if isinstance(inputs, str | Path) else inputs)
        if sites is not None and len(sites) != len(inputs):
            raise DataError(f"`sites` has {len(sites)} entries for {len(inputs)} inputs")
        network, ready = self.ready(inputs, sites, workers)
        outputs, p_values, done = [], [], 0
        for seen, output in network.answers(without_labels(ready), self.form, self.device, workers):
            if self.update is not None:
                doubles = (part.astype(np.float64) for part in (output, seen))
                output = self.update.applied(*doubles).astype(output.dtype)
            outputs.append(output)
            unknown = np.full(len(seen), np.nan)
            p_values.append(self.typicality.p_value(seen) if self.typicality else unknown)
            done += len(seen)
            progress("predicting", done, len(inputs))
        p_value = np.concatenate(p_values)
        far = self.typicality.is_far(p_value) if self.typicality else p_value < 0
        return sites, p_value, far, np.concatenate(outputs)

    def predict_proba(self, inputs: Inputs | Any) -> np.ndarray:
        """Return the probability of each class, [n, classes] in the order of `classes`."""
        return self.predict(inputs).probabilities

    @property
    def standardized(self) -> str:
        """A description of how rows are standardised within their site; empty if they are not."""
        return ADAPTATION[self.config.standardize]

    def ready(
        self, inputs: Inputs, sites: Sequence[str] | None = None, workers: int | None = None
    ) -> tuple[Predictor | RowPredictor, Inputs]:
        """Return the network and its inputs, standardised by site if the model was trained so."""
        how = self.config.standardize
        if how == NONE:
            return self.network, inputs
        if isinstance(self.form, TableForm):
            return self.network, self.form.within_sites(np.asarray(inputs), sites)
        from shiftproof.inference.predictor import standardized_features

        return standardized_features(self.network, how, inputs, sites, self.device, workers)

    def recalibrated(
        self, inputs: Inputs, labels: np.ndarray
    ) -> tuple[TrainedModel, Recalibration]:
        """Return the model updated with labelled rows of a new site, and the effect of the update.

        Args:
            inputs: the preprocessed rows.
            labels: the index of each row's class in `classes`.
        """
        if self.target:
            raise InvalidValue(
                f"the model predicts a number, {self.target}; `recalibrate` is for classes"
            )
        if self.update is not None:
            raise DataError("the model has been recalibrated before; use the trained one")
        chances = self.predict(inputs).probabilities.astype(np.float64)
        features = None
        if isinstance(self.form, TableForm):
            _, ready = self.ready(inputs)
            features = self.form.features(np.asarray(ready)).astype(np.float64)
        done = recalibrated(chances, features, np.asarray(labels))
        # The results on held-out domains do not apply to the updated model.
        return replace(self, update=done.update, label_shift=None), done

    def described(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON values; what is absent or 1 is left out."""
        learner = self.network.algorithm
        optional = {
            "label_shift": self.label_shift and self.label_shift.to_json(),
            "update": self.update and self.update.to_json(),
            "targets": list(self.targets),
            "half_widths": self.half_widths and [self.half_widths.to_json()],
            "temperature": self.temperature if self.temperature != 1 else None,
            "held_out_accuracy": dict(self.held_out_accuracy),
            "ensemble": learner.ensemble.to_json() if isinstance(learner, Exact) else None,
        }
        return {
            "version": shiftproof.__version__,
            "config": self.config.to_json(),
            "task": self.task.to_json(),
            "classes": list(self.classes),
            "domains": list(self.domains),
            "form": self.form.to_json(),
            "columns": dict(self.columns),
            **{name: value for name, value in optional.items() if value},
        }

    def to_bytes(self) -> bytes:
        """Return the content of the model's file."""
        parts = {NETWORK: self.network.weights()}
        if isinstance(self.network.algorithm, Exact):
            parts[MEMBERS] = self.network.algorithm.ensemble.arrays()
        if self.typicality:
            parts[TYPICALITY] = self.typicality.arrays()
        arrays = {
            f"{prefix}{name}": array
            for prefix, part in parts.items()
            for name, array in part.items()
        }
        return model_bytes(self.described(), arrays)

    @classmethod
    def from_bytes(
        cls, data: bytes, device: str = "auto", where: str = "the model", *, trust: bool = False
    ) -> TrainedModel:
        """Rebuild a model from the content of its file.

        Args:
            data: what `to_bytes` returned.
            device: auto, cpu, cuda or mps.
            where: what to call the file in errors.
            trust: also load an estimator of the model's author, which may run code.
        """
        with valid_model(where):
            return cls._read(*read_model(data, where), device, trust)

    @classmethod
    def _read(
        cls, described: Mapping[str, Any], arrays: Mapping[str, Any], device: str, trust: bool
    ) -> TrainedModel:
        """Return the model with a checked description and arrays, which may not fit it."""
        config = RunConfig.from_json(described["config"])
        exact = ALGORITHMS.get(config.algorithm).exact
        built = without_starting_weights(
            config, "cpu" if exact and not config.extractor else device
        )
        task = Task.from_json(described["task"])
        form = form_from_json(described["form"])
        known = config.standardize in ADAPTATION
        if not known or getattr(form, "standardize", config.standardize) != config.standardize:
            raise ValueError("how its rows are standardized is unknown")
        if not config.extractor and form.input_shape != task.input_shape:
            raise ValueError(
                f"inputs of shape {form.input_shape} for a network of {task.input_shape}"
            )
        width = len(form.columns.feature_names) if isinstance(form, TableForm) else 0
        if strange := [name for name in arrays if not name.startswith(PREFIXES)]:
            raise ValueError(f"it has unknown arrays: {listed(strange)}")
        stored = under(TYPICALITY, arrays)
        typicality = None
        if stored or not config.private:
            typicality = Typicality.from_arrays(stored, {"features": width} if width else {})
        learner = None
        if exact:
            learner = build_exact(built, task)
            members, columns = under(MEMBERS, arrays), math.prod(task.input_shape)
            learner.ensemble = Ensemble.read(
                described["ensemble"], members, columns, task.num_classes, trust=trust
            )
        network: Predictor | RowPredictor
        if learner is not None and not config.extractor:
            network = RowPredictor(learner)
        else:
            from shiftproof.inference.predictor import network_predictor

            temperature = float(described.get("temperature", 1.0))
            network = network_predictor(built, task, form.input_shape, temperature, learner)
            network.load(under(NETWORK, arrays))
        label_shift, update = described.get("label_shift"), described.get("update")
        model = cls(
            config,
            task,
            tuple(described["classes"]),
            tuple(described["domains"]),
            form,
            network,
            typicality,
            described["columns"],
            built.device,
            label_shift and LabelShift.from_json(label_shift),
            update and Update.from_json(update),
            tuple(described.get("targets", ())),
            next(map(HalfWidths.from_json, described.get("half_widths", ())), None),
            described.get("held_out_accuracy", {}),
        )
        if model.update is not None and (model.update.columns >= width).any():
            raise ValueError(f"the update of the model needs more than its {width} features")
        return model

    def without_training_data(self) -> TrainedModel:
        """Return the model reduced to what prediction needs; it must be private.

        The result lacks the typicality, what held-out domains tell of class shares and intervals,
        the domain names, and the hash of the data.
        """
        if not self.config.private:
            raise InvalidValue(
                "this model was not trained to be private, and may hold values of single training"
                " samples; train it again with `private`"
            )
        config = replace(self.config, fingerprint="", test_domains=())
        reduced = replace(self, config=config, domains=(), typicality=None, label_shift=None)
        return replace(reduced, half_widths=None, held_out_accuracy={})

    def save(self, folder: Path) -> Path:
        """Write the model to a folder and return the path of its file."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MODEL, self.to_bytes())
        add_file(folder, MODEL)
        return folder / MODEL

    @classmethod
    def load(cls, path: Path, device: str = "auto", *, trust: bool = False) -> TrainedModel:
        """Load a model from its file or from the folder of its run; see `from_bytes`."""
        file = path / MODEL if path.is_dir() else path
        if not file.is_file():
            raise DataError(why_missing(path))
        try:
            data = file.read_bytes()
        except MemoryError as error:
            raise DataError(
                f"{file} is larger than the free memory; check that it is a model file"
            ) from error
        RunFolder(file.parent).check(file.name)
        return cls.from_bytes(data, device, str(file), trust=trust)

    def __repr__(self) -> str:
        parts = {"classes": self.classes, "targets": self.targets, "domains": self.domains}
        text = "".join(f", {name}={value!r}" for name, value in parts.items() if value)
        return f"TrainedModel({self.config.algorithm!r} on {self.config.dataset!r}{text})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling runs code anyway.
        return partial(TrainedModel.from_bytes, trust=True), (self.to_bytes(), self.device)
