"""Models that were fitted at once, as torch modules that can be exported like any network.

Each part becomes an equivalent module in float64: the encoder, logistic regression,
forests and boosted trees, and the ensemble's weights and temperatures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.data.domain import as_numbers
from shiftproof.inference.export_encoder import EncoderLayer
from shiftproof.inference.export_trees import BoostingLayer, ForestLayer
from shiftproof.inference.predictor import Predictor
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.learners.calibration import SMALLEST
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.estimator import EstimatorModel
from shiftproof.models.risk import class_probabilities


class EnsembleLayer(nn.Module):
    """`Ensemble.predict_proba` as a layer: rows [n, d] → log-probabilities [n, c]."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        used = [member for member in ensemble.members if member.weight > 0]
        self.classes, self.temperature = ensemble.classes, ensemble.temperature
        self.weights = [member.weight for member in used]
        self.temperatures = [member.temperature for member in used]
        self.known = [np.asarray(member.model.classes_, dtype=int).tolist() for member in used]
        self.members = nn.ModuleList(as_module(member.name, member.model) for member in used)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities, for use as logits."""
        rows = x.flatten(1).double()
        columns: list[Tensor | float] = [0.0] * self.classes
        parts = zip(self.members, self.weights, self.temperatures, self.known, strict=True)
        for member, weight, temperature, known in parts:
            predicted = weight * _tempered(member(rows), temperature)
            for place, position in enumerate(known):
                columns[position] = columns[position] + predicted[:, place]
        nothing = torch.zeros_like(rows[:, 0])
        total = torch.stack([nothing + column for column in columns], dim=1)
        if self.temperature != 1:
            total = _tempered(total, self.temperature)
        return total.clamp(min=SMALLEST).log().float()


class NumberEnsembleLayer(nn.Module):
    """`Ensemble.predict` as a layer: rows [n, d] → numbers in standard units [n, k]."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        used = [member for member in ensemble.members if member.weight > 0]
        self.weights = [member.weight for member in used]
        self.members = nn.ModuleList(as_module(member.name, member.model) for member in used)

    def forward(self, x: Tensor) -> Tensor:
        """Return numbers."""
        rows = x.flatten(1).double()
        parts = [w * member(rows) for w, member in zip(self.weights, self.members, strict=True)]
        return torch.stack(parts).sum(dim=0)


class ExactNetwork(nn.Module):
    """A predictor whose algorithm was fitted at once, as layers: inputs → outputs."""

    def __init__(self, network: Predictor | RowPredictor) -> None:
        super().__init__()
        self.stem = nn.Identity() if network.stem is None else network.stem
        head: Any = network.algorithm.head
        kind = EnsembleLayer if head.ensemble.classes else NumberEnsembleLayer
        self.ensemble = kind(head.ensemble)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities or numbers for inputs, uint8 or floating point."""
        predicted: Tensor = self.ensemble(self.stem(as_numbers(x)))
        return predicted


class LogisticLayer(nn.Module):
    """scikit-learn's `LogisticRegression`: features [n, k] → probabilities [n, c]."""

    coefficients: Tensor
    intercepts: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.register_buffer("coefficients", torch.tensor(model.coef_.T, dtype=torch.float64))
        self.register_buffer("intercepts", torch.tensor(model.intercept_, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        """Return probabilities."""
        return class_probabilities(features @ self.coefficients + self.intercepts)


class RidgeLayer(nn.Module):
    """scikit-learn's `Ridge`: features [n, k] → numbers [n, 1]."""

    coefficients: Tensor
    intercept: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        columns = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64)).T
        self.register_buffer("coefficients", torch.tensor(columns))
        self.register_buffer("intercept", torch.tensor(model.intercept_, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        """Return numbers."""
        return features @ self.coefficients + self.intercept


# The equivalent layer of each type of model.
LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    "LogisticRegression": LogisticLayer,
    "RandomForestClassifier": ForestLayer,
    "ExtraTreesClassifier": ForestLayer,
    "HistGradientBoostingClassifier": BoostingLayer,
    "Ridge": RidgeLayer,
    "RandomForestRegressor": ForestLayer,
    "ExtraTreesRegressor": ForestLayer,
    "HistGradientBoostingRegressor": BoostingLayer,
}
# User estimators with an equivalent layer for all parameter values.
ALONE = frozenset(["HistGradientBoostingClassifier"])


def as_module(name: str, model: Any) -> nn.Module:
    """Return a member as a module: rows [n, d] float64 → its probabilities or numbers."""
    if isinstance(model, EstimatorModel) and type(model.model).__name__ in ALONE:
        model = model.model
    steps = [step for _, step in getattr(model, "steps", [("", model)])]
    last = steps[-1]
    kind = type(last).__name__
    if kind not in LAYERS:
        raise InvalidValue(
            f"{name} cannot be exported: there is no layer for a {kind}; predict with shiftproof"
        )
    layer = LAYERS[kind](last)
    return nn.Sequential(*(EncoderLayer(step) for step in steps[:-1]), layer)


def _tempered(predicted: Tensor, temperature: float) -> Tensor:
    """Return tempered probabilities, as `learners.calibration.tempered` does."""
    return (predicted.clamp(min=SMALLEST).log() / temperature).softmax(dim=1)
