"""Trained models: one file with everything needed to predict, and nothing used only in training.

The file is safetensors: the weights that the run scores, a description of the training domains
(`inference.typicality`), and a JSON header with the classes, the domains and the input form.
Reading it never runs code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.files import write_atomically
from shiftproof.core.standardize import ADAPTATION, NONE
from shiftproof.core.types import Task
from shiftproof.data.base import Progress, silent
from shiftproof.data.domain import LazyInputs, TensorLike, as_array
from shiftproof.data.input_forms import (
    InputForm,
    Inputs,
    ReadyInputs,
    TableForm,
    as_ready,
)
from shiftproof.data.within_domain import NEW_SITE
from shiftproof.inference.adaptation.label_shift import LabelShift, adapted, checked_adapt
from shiftproof.inference.adaptation.recalibrate import Recalibration, Update, recalibrated
from shiftproof.inference.conformal import HalfWidths, Width
from shiftproof.inference.model_file import MODEL, model_bytes, model_fields, why_missing
from shiftproof.inference.predictions import NumberPredictions, Predictions
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.inference.typicality import Typicality
from shiftproof.training.config import RunConfig
from shiftproof.training.run_folder import RunFolder, add_file

if TYPE_CHECKING:
    from torch import Tensor

    from shiftproof.inference.predictor import Predictor


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, with everything needed to predict.

    `task` is the task of the algorithm, `domains` are the training domains, and `columns` names
    the table columns with the label, the domain and the images.  The model predicts in fp32,
    whatever the precision in training.  A regression model has `targets`, the name of the
    predicted number; a classifier has `classes` instead.  `half_widths` are the half-widths of
    prediction intervals, available if training domains were held out.  A model without a
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
        inputs, sites = self._given(inputs, sites)
        plain = Predictions(*self._answers(inputs, sites, workers, progress))
        if how == "none":
            return plain
        found = plain.probability_array
        names = np.array([NEW_SITE] * len(found) if sites is None else list(sites), dtype=object)
        done_to = {}
        for site in dict.fromkeys(names):
            rows = np.flatnonzero(names == site)
            typicality = plain.typicality_array[rows] if self.typicality else None
            given = found[rows].astype(np.float64)
            done_to[str(site)] = adapted(self.label_shift, given, typicality)
            found[rows] = done_to[str(site)].probabilities.astype(found.dtype)
        return Predictions(found, plain.typicality_array, plain.far_array, done_to)

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
        inputs, sites = self._given(inputs, sites)
        return NumberPredictions(*self._answers(inputs, sites, workers, progress))

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

    def _given(
        self, inputs: Inputs | Any, sites: Sequence[str] | None
    ) -> tuple[Inputs, Sequence[str] | None]:
        """Return the preprocessed inputs, and the site of each input if known."""
        if len(inputs) == 0:
            raise DataError("there is nothing to predict: the inputs are empty")
        if isinstance(inputs, TensorLike):
            inputs = as_ready(as_array(inputs))
        if not isinstance(inputs, ReadyInputs | LazyInputs):
            if sites is None and self.standardized:
                sites = self._sites(inputs)
            inputs = self.form.read([inputs] if isinstance(inputs, str | Path) else inputs)
        if sites is not None and len(sites) != len(inputs):
            raise DataError(f"`sites` has {len(sites)} entries for {len(inputs)} inputs")
        return inputs, sites

    def _answers(
        self,
        inputs: Inputs,
        sites: Sequence[str] | None,
        workers: int | None,
        progress: Progress,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the probabilities or numbers, the typicality, and which inputs are far."""
        network, ready = self.ready(inputs, sites, workers)
        answers, p_values, done = [], [], 0
        for seen, answer in network.answers(ready, self.form, self.device, workers):
            answers.append(answer if self.target else self._updated(answer, seen))
            unknown = np.full(len(seen), np.nan)
            p_values.append(self.typicality.p_value(seen) if self.typicality else unknown)
            done += len(seen)
            progress("predicting", done, len(inputs))
        p_value = np.concatenate(p_values)
        far = self.typicality.is_far(p_value) if self.typicality else p_value < 0
        return np.concatenate(answers), p_value, far

    def predict_proba(self, inputs: Inputs | Any) -> np.ndarray:
        """Return the probability of each class, [n, classes] in the order of `classes`."""
        return self.predict(inputs).probability_array

    def _sites(self, frame: Any) -> list[str] | None:
        """Return the site of each row of a data frame, or None without a domain column."""
        column = self.columns.get("domain")
        if column is None or column not in getattr(frame, "columns", ()):
            return None
        return [str(value) for value in frame[column]]

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

    def _updated(self, probabilities: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """Return probabilities after the update to a new site, if the model has one."""
        if self.update is None:
            return probabilities
        given = (part.astype(np.float64) for part in (probabilities, seen))
        return self.update.applied(*given).astype(probabilities.dtype)

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
        found = self.predict(inputs).probability_array.astype(np.float64)
        features = None
        if isinstance(self.form, TableForm):
            _, ready = self.ready(inputs)
            features = self.form.features(np.asarray(ready)).astype(np.float64)
        done = recalibrated(found, features, np.asarray(labels))
        # The results on held-out domains do not apply to the updated model.
        return replace(self, update=done.update, label_shift=None), done

    def probabilities(self, inputs: Inputs) -> Tensor:
        """Return the probability of each class, [n, c]."""
        return self.predict(inputs).probabilities

    def to_bytes(self) -> bytes:
        """Return the content of the model's file."""
        return model_bytes(self)

    @classmethod
    def from_bytes(
        cls, data: bytes, device: str = "auto", where: str = "the model"
    ) -> TrainedModel:
        """Rebuild a model from the content of its file."""
        return cls(**model_fields(data, device, where))

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
        found = replace(self, config=config, domains=(), typicality=None, label_shift=None)
        return replace(found, half_widths=None)

    def save(self, folder: Path) -> Path:
        """Write the model to a folder and return the path of its file."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / MODEL, self.to_bytes())
        add_file(folder, MODEL)
        return folder / MODEL

    @classmethod
    def load(cls, path: Path, device: str = "auto") -> TrainedModel:
        """Load a model from its file or from the folder of its run."""
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
        return cls.from_bytes(data, device, str(file))

    def __repr__(self) -> str:
        told = {"classes": self.classes, "targets": self.targets, "domains": self.domains}
        shown = "".join(f", {name}={value!r}" for name, value in told.items() if value)
        return f"TrainedModel({self.config.algorithm!r} on {self.config.dataset!r}{shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return TrainedModel.from_bytes, (self.to_bytes(), self.device)
