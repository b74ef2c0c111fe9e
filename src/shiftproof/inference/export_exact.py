"""Models that were fitted at once, as torch modules that can be exported like any network.

Each kind of member becomes a module that computes the same in float64: the encoder, logistic
regression, forests and boosted trees, and the ensemble's weights and temperatures.  Trees compare
exactly the numbers that scikit-learn compares, so they take the same branches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.data.domain import as_numbers
from shiftproof.inference.predictor import Predictor
from shiftproof.learners.calibration import SMALLEST
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.estimator import EstimatorModel
from shiftproof.models.risk import class_probabilities


class EnsembleLayer(nn.Module):
    """`Ensemble.predict_proba` as a layer: rows [n, d] → log-probabilities [n, c]."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        used = [member for member in ensemble.members if member.weight > 0]
        self.classes = ensemble.classes
        self.weights = [member.weight for member in used]
        self.temperatures = [member.temperature for member in used]
        self.known = [np.asarray(member.model.classes_, dtype=int).tolist() for member in used]
        self.members = nn.ModuleList(as_module(member.name, member.model) for member in used)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities, which are logits."""
        rows = x.flatten(1).double()
        columns: list[Tensor | float] = [0.0] * self.classes
        parts = zip(self.members, self.weights, self.temperatures, self.known, strict=True)
        for member, weight, temperature, known in parts:
            logits = member(rows).clamp(min=SMALLEST).log() / temperature
            predicted = weight * logits.softmax(dim=1)
            for place, position in enumerate(known):
                columns[position] = columns[position] + predicted[:, place]
        nothing = torch.zeros_like(rows[:, 0])
        total = torch.stack([nothing + column for column in columns], dim=1)
        return total.clamp(min=SMALLEST).log().float()


class ExactNetwork(nn.Module):
    """A predictor whose algorithm was fitted at once, as layers: inputs → log-probabilities."""

    def __init__(self, network: Predictor) -> None:
        super().__init__()
        self.stem = nn.Identity() if network.stem is None else network.stem
        head: Any = network.algorithm.head
        self.ensemble = EnsembleLayer(head.ensemble)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities of inputs, uint8 or floating point."""
        predicted: Tensor = self.ensemble(self.stem(as_numbers(x)))
        return predicted


class EncoderLayer(nn.Module):
    """`learners.encoding.encoder` as a layer: rows [n, d] → features [n, k].

    A feature depends on one column.  It is the column with its gaps filled, whether the column
    equals a code, or whether it is missing; then it is shifted and scaled.
    """

    column: Tensor
    kind: Tensor
    fill: Tensor
    code: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        features: list[tuple[float, ...]] = []  # column, kind, fill, code, mean, scale
        for name, pipeline, columns in encoder.transformers_:
            imputer, last = (step for _, step in pipeline.steps)
            fills = imputer.statistics_
            if name == "numbers":
                indicated = imputer.indicator_.features_ if imputer.indicator_ else ()
                made = [(column, 0, fill, 0) for column, fill in zip(columns, fills, strict=True)]
                made += [(columns[place], 2, 0, 0) for place in indicated]
                scales = zip(last.mean_, last.scale_, strict=True)
                features += [(*one, *scale) for one, scale in zip(made, scales, strict=True)]
            else:
                features += [
                    (column, 1, fill, code, 0, 1)
                    for column, fill, codes in zip(columns, fills, last.categories_, strict=True)
                    for code in codes
                ]
        table = torch.tensor(np.array(features, dtype=np.float64))
        for name, values in zip(("column", "kind"), table[:, :2].long().unbind(1), strict=True):
            self.register_buffer(name, values)
        for name, values in zip(("fill", "code", "mean", "scale"), table[:, 2:].T, strict=True):
            self.register_buffer(name, values)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features of rows."""
        x = rows[:, self.column]
        missing = x.isnan()
        filled = torch.where(missing, self.fill, x)
        equal = torch.eq(filled, self.code).double()
        marks = torch.where(self.kind == 1, equal, missing.double())
        return (torch.where(self.kind == 0, filled, marks) - self.mean) / self.scale


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


class TreesLayer(nn.Module):
    """Trees side by side: rows [n, d] → the values of the leaves they reach, [n, trees, v].

    Nodes of all trees are numbered in one row.  A node sends a row left if its number is at most
    the threshold or, at a split by category, if the set `sets[split]` holds its code; one that is
    missing goes where `missing_left` says.  A leaf sends every row to itself, so that after as
    many steps as the deepest tree has levels, every row is in its leaf.
    """

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    missing_left: Tensor
    split: Tensor
    values: Tensor
    roots: Tensor
    sets: Tensor

    def __init__(
        self,
        trees: list[dict[str, np.ndarray]],
        sets: np.ndarray | None = None,
        *,
        takes_missing: bool = True,
    ) -> None:
        """Join trees: the buffers up to `values` [nodes, v], of each tree.

        In a leaf `left` is -1; `split` is -1 where a node does not split by category.  `sets`
        [splits, codes + 2] are by code + 1; the last entry is for codes beyond.
        """
        super().__init__()
        sizes = [len(tree["left"]) for tree in trees]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        joined = {key: np.concatenate([tree[key] for tree in trees]) for key in trees[0]}
        leaf, offset, own = joined["left"] < 0, np.repeat(starts, sizes), np.arange(sum(sizes))
        for side in ("left", "right"):
            joined[side] = np.where(leaf, own, joined[side] + offset)
        joined["feature"] = np.where(leaf, 0, joined["feature"])
        for key, value in joined.items():
            wide = {"f": np.float64, "b": np.bool_}.get(value.dtype.kind, np.int64)
            self.register_buffer(key, torch.tensor(value.astype(wide)))
        self.register_buffer("roots", torch.tensor(starts))
        self.depth = max(_depth(tree["left"], tree["right"]) for tree in trees)
        self.takes_missing = takes_missing
        self.by_category = sets is not None
        sets = np.zeros((0, 0), dtype=bool) if sets is None else sets
        self.width = sets.shape[1]
        self.register_buffer("sets", torch.tensor(sets.ravel()))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the values of the leaves."""
        at = self.roots.expand(rows.shape[0], -1)
        for _ in range(self.depth):
            value = rows.gather(1, self.feature[at])
            missing = value.isnan()
            goes_left = value <= self.threshold[at]
            if self.by_category:
                code = torch.where(missing, -1.0, value).floor().clamp(-1, self.width - 3)
                place = torch.where(torch.eq(code, value), code.long() + 1, self.width - 1)
                split = self.split[at]
                inside = self.sets[split.clamp(min=0) * self.width + place]
                goes_left = _chosen(split >= 0, inside, goes_left)
            if self.takes_missing:
                goes_left = _chosen(missing, self.missing_left[at], goes_left)
            at = torch.where(goes_left, self.left[at], self.right[at])
        return self.values[at]


class ForestLayer(nn.Module):
    """scikit-learn's forests: features [n, k] → probabilities [n, c]."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        trees = []
        for grown in model.estimators_:
            tree = grown.tree_
            counts = tree.value[:, 0, :]
            trees.append(
                {
                    "feature": tree.feature,
                    "threshold": tree.threshold,
                    "left": tree.children_left,
                    "right": tree.children_right,
                    "missing_left": np.zeros(tree.node_count, dtype=bool),
                    "split": np.full(tree.node_count, -1),
                    "values": counts / counts.sum(axis=1, keepdims=True),
                }
            )
        self.trees = TreesLayer(trees, takes_missing=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return probabilities; scikit-learn rounds the features of a forest to float32."""
        return self.trees(features.float().double()).mean(dim=1)  # type: ignore[no-any-return]


class BoostingLayer(nn.Module):
    """scikit-learn's `HistGradientBoostingClassifier`: rows [n, d] → probabilities [n, c]."""

    baseline: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        # By position among the columns as the trees have them: the categories come first.
        columns, codes = np.arange(model.n_features_in_), {}
        if model.is_categorical_ is not None:
            mask = model.is_categorical_
            columns = np.concatenate([columns[mask], columns[~mask]])
            encoder = model._preprocessor.named_transformers_["encoder"]
            codes = {place: own[~np.isnan(own)] for place, own in enumerate(encoder.categories_)}
        widest = max([-1, *(int(own.max()) for own in codes.values() if len(own))])
        trees: list[dict[str, np.ndarray]] = []
        sets: list[np.ndarray] = []
        for predictor in (one for stage in model._predictors for one in stage):
            nodes = predictor.nodes
            split = np.full(len(nodes), -1)
            for place in np.flatnonzero(nodes["is_categorical"]):
                node = nodes[place]
                split[place] = len(sets)
                # Codes that were not trained on go where missing values go.
                inside = np.full(widest + 3, bool(node["missing_go_to_left"]))
                words = predictor.raw_left_cat_bitsets[node["bitset_idx"]]
                own = codes[int(node["feature_idx"])]
                ordinal = np.arange(len(own))
                inside[own.astype(int) + 1] = (words[ordinal // 32] >> (ordinal % 32)) & 1 == 1
                sets.append(inside)
            leaf = nodes["is_leaf"].astype(bool)
            trees.append(
                {
                    "feature": columns[np.where(leaf, 0, nodes["feature_idx"])],
                    "threshold": nodes["num_threshold"],
                    "left": np.where(leaf, -1, nodes["left"].astype(int)),
                    "right": np.where(leaf, -1, nodes["right"].astype(int)),
                    "missing_left": nodes["missing_go_to_left"].astype(bool),
                    "split": split,
                    "values": nodes["value"][:, None],
                }
            )
        self.trees = TreesLayer(trees, np.stack(sets) if sets else None)
        self.register_buffer("baseline", torch.tensor(model._baseline_prediction).double())

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities."""
        per_class = self.baseline.shape[1]  # trees of one stage: one a class, one for two classes
        logits = self.trees(rows)[:, :, 0].unflatten(1, (-1, per_class)).sum(dim=1)
        return class_probabilities(logits + self.baseline)


# For each type of model, the layer that computes the same.
LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    "LogisticRegression": LogisticLayer,
    "RandomForestClassifier": ForestLayer,
    "ExtraTreesClassifier": ForestLayer,
    "HistGradientBoostingClassifier": BoostingLayer,
}


def as_module(name: str, model: Any) -> nn.Module:
    """Return a member as a module: rows [n, d] float64 → probabilities of its classes."""
    if isinstance(model, EstimatorModel):  # a single one; others are not made of our encoder
        texts = [column for column, values in model.columns if values is not None]
        if texts or type(model.model).__name__ not in LAYERS:
            raise InvalidValue(f"{name} cannot be exported as layers; predict with shiftproof")
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


def _chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return `torch.where` of three masks, which onnxruntime lacks."""
    return (condition & yes) | (~condition & no)


def _depth(left: np.ndarray, right: np.ndarray) -> int:
    """Return how many splits the longest path of a tree has."""
    level, at = 0, np.zeros(1, dtype=int)
    while len(at := at[left[at] >= 0]):
        at = np.concatenate([left[at], right[at]])
        level += 1
    return level
