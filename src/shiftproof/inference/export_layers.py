"""Models that were fitted at once, as torch modules that can be exported like any network.

Each part becomes an equivalent module in float64: the encoder, logistic regression,
forests and boosted trees, and the ensemble's weights and temperatures.  Trees compare exactly the
same numbers as scikit-learn, so rows take the same branches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.data.domain import as_numbers
from shiftproof.inference.predictor import Predictor
from shiftproof.inference.row_predictor import RowPredictor
from shiftproof.learners.criterion import SMALLEST
from shiftproof.learners.ensemble import Ensemble
from shiftproof.learners.estimator import EstimatorModel
from shiftproof.models.risk import class_probabilities


class EncoderLayer(nn.Module):
    """`learners.encoding.encoder` as a layer: rows [n, d] → features [n, k].

    Each feature depends on one column.  It is the imputed column, an indicator of a code, or an
    indicator of missing values; numbers may be replaced by their ranks.  All features are shifted
    and scaled.
    """

    column: Tensor
    kind: Tensor
    fill: Tensor
    code: Tensor
    mean: Tensor
    scale: Tensor

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.ranks: RanksLayer | None = None
        features: list[tuple[float, ...]] = []  # column, kind, fill, code, mean, scale
        for name, pipeline, columns in encoder.transformers_:
            imputer, *between, last = (step for _, step in pipeline.steps)
            fills = imputer.statistics_
            if name == "numbers":
                indicated = imputer.indicator_.features_ if imputer.indicator_ else ()
                made = [(column, 0, fill, 0) for column, fill in zip(columns, fills, strict=True)]
                made += [(columns[place], 2, 0, 0) for place in indicated]
                scales = zip(last.mean_, last.scale_, strict=True)
                self.ranks = RanksLayer(between[0]) if between else None
                features += [(*one, *scale) for one, scale in zip(made, scales, strict=True)]
            else:
                features += [
                    (column, 1, fill, code, 0, 1)
                    for column, fill, codes in zip(columns, fills, last.categories_, strict=True)
                    for code in codes
                ]
        register_features(self, ("column", "kind", "fill", "code", "mean", "scale"), features)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features of the rows."""
        x = rows[:, self.column]
        missing = x.isnan()
        filled = torch.where(missing, self.fill, x)
        equal = torch.eq(filled, self.code).double()
        marks = torch.where(self.kind == 1, equal, missing.double())
        features = torch.where(self.kind == 0, filled, marks)
        if self.ranks is not None:
            numbers = self.ranks.columns  # the numeric columns come first
            ranked = self.ranks(features[:, :numbers])
            features = torch.cat([ranked, features[:, numbers:]], dim=1)
        return (features - self.mean) / self.scale


def register_features(
    layer: nn.Module, names: Sequence[str], features: Sequence[Sequence[float]]
) -> None:
    """Add a buffer [features] for each property of the features; the first two are integers."""
    table = torch.tensor(np.array(features, dtype=np.float64))
    for place, name in enumerate(names):
        values = table[:, place]
        layer.register_buffer(name, values.long() if place < 2 else values)


class RanksLayer(nn.Module):
    """scikit-learn's `QuantileTransformer`: numbers [n, k] → ranks [n, k] in [0, 1].

    With quantiles q₁ ≤ … ≤ q_m at ranks r₁ < … < r_m, ranks between quantiles are interpolated.
    Equal quantiles span a range of ranks, whose midpoint is used: the mean of the interpolations
    from the last qⱼ ≤ x upward and from the first qⱼ ≥ x downward.
    """

    quantiles: Tensor
    references: Tensor

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.columns = transformer.quantiles_.shape[1]
        self.register_buffer("quantiles", torch.tensor(transformer.quantiles_.T).contiguous())
        self.register_buffer("references", torch.tensor(transformer.references_))

    def forward(self, x: Tensor) -> Tensor:
        """Return the ranks."""
        apart = x[:, :, None] - self.quantiles
        below, above = (apart >= 0).sum(dim=2) - 1, (apart > 0).sum(dim=2)
        ranks = (self._between(x, below) + self._between(x, above - 1)) / 2
        ranks = torch.where(x >= self.quantiles[:, -1], 1.0, ranks)
        return torch.where(x <= self.quantiles[:, 0], 0.0, ranks)

    def _between(self, x: Tensor, left: Tensor) -> Tensor:
        """Interpolate between the quantiles `left` [n, k] and `left` + 1."""
        left = left.clamp(0, len(self.references) - 2)
        # Index into the flattened quantiles of all columns.
        offsets = torch.arange(self.columns) * len(self.references)
        flat = self.quantiles.flatten()
        low, high = flat[offsets + left], flat[offsets + left + 1]
        step = (self.references[left + 1] - self.references[left]) / (high - low)
        return step * (x - low) + self.references[left]


class TreesLayer(nn.Module):
    """Trees side by side: rows [n, d] → the values of the leaves they reach, [n, trees, v].

    The nodes of all trees are numbered consecutively.  A node sends a row left if its number is at
    most the threshold or, at a split by category, if the set `sets[split]` contains its code;
    `missing_left` decides for missing values.  A leaf sends every row to itself, so that after as
    many steps as the depth of the deepest tree every row is in its leaf.
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
        """Join trees, each given as its buffers up to `values` [nodes, v].

        `left` is -1 in a leaf; `split` is -1 if a node does not split by category.  `sets`
        [splits, codes + 2] are indexed by code + 1; the last entry is for larger codes.
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
    """scikit-learn's forests: features [n, k] → probabilities [n, c], or numbers [n, 1]."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        numbers = not hasattr(model, "classes_")
        trees = []
        for grown in model.estimators_:
            tree = grown.tree_
            counts = tree.value.reshape(tree.node_count, -1)  # of classes, or a number
            trees.append(
                {
                    "feature": tree.feature,
                    "threshold": tree.threshold,
                    "left": tree.children_left,
                    "right": tree.children_right,
                    "missing_left": np.zeros(tree.node_count, dtype=bool),
                    "split": np.full(tree.node_count, -1),
                    "values": counts if numbers else counts / counts.sum(axis=1, keepdims=True),
                }
            )
        self.trees = TreesLayer(trees, takes_missing=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return probabilities or numbers; scikit-learn rounds features to float32 here."""
        return self.trees(features.float().double()).mean(dim=1)  # type: ignore[no-any-return]


class BoostingLayer(nn.Module):
    """scikit-learn's histogram boosting: rows [n, d] → probabilities [n, c], or numbers [n, 1]."""

    baseline: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.numbers = not hasattr(model, "classes_")
        # Trees index columns in their own order: the categorical columns come first.
        columns, codes = np.arange(model.n_features_in_), {}
        if model.is_categorical_ is not None:
            mask = model.is_categorical_
            columns = np.concatenate([columns[mask], columns[~mask]])
            encoder = model._preprocessor.named_transformers_["encoder"]
            codes = {place: own[~np.isnan(own)] for place, own in enumerate(encoder.categories_)}
        if any((own != own.round()).any() or (own < -1).any() for own in codes.values()):
            raise InvalidValue(
                "boosted trees with categories that are not codes 0, 1, … cannot be exported"
            )
        widest = max([-1, *(int(own.max()) for own in codes.values() if len(own))])
        trees: list[dict[str, np.ndarray]] = []
        sets: list[np.ndarray] = []
        for predictor in (one for stage in model._predictors for one in stage):
            nodes = predictor.nodes
            split = np.full(len(nodes), -1)
            for place in np.flatnonzero(nodes["is_categorical"]):
                node = nodes[place]
                split[place] = len(sets)
                # Codes not seen in training go where missing values go.
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
        """Return probabilities, or numbers."""
        per_class = self.baseline.shape[1]  # trees per stage: one per class, or one for two classes
        logits = self.trees(rows)[:, :, 0].unflatten(1, (-1, per_class)).sum(dim=1)
        logits = logits + self.baseline
        return logits if self.numbers else class_probabilities(logits)


def _chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """Return `torch.where` of three masks, which onnxruntime does not support."""
    return (condition & yes) | (~condition & no)


def _depth(left: np.ndarray, right: np.ndarray) -> int:
    """Return the depth of a tree, in splits."""
    level, at = 0, np.zeros(1, dtype=int)
    while len(at := at[left[at] >= 0]):
        at = np.concatenate([left[at], right[at]])
        level += 1
    return level


class EnsembleLayer(nn.Module):
    """`Ensemble.predict_proba` as a layer: rows [n, d] → log-probabilities [n, c].

    For numbers, it is `Ensemble.predict`: rows [n, d] → numbers in standard units [n, k].
    """

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        used = [member for member in ensemble.members if member.weight > 0]
        self.classes, self.temperature = ensemble.classes, ensemble.temperature
        self.weights = [member.weight for member in used]
        self.temperatures = [member.temperature for member in used]
        known = [getattr(member.model, "classes_", ()) for member in used]
        self.known = [np.asarray(codes, dtype=int).tolist() for codes in known]
        self.members = nn.ModuleList(as_module(member.name, member.model) for member in used)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities, for use as logits, or numbers."""
        rows = x.flatten(1).double()
        predicted = [member(rows) for member in self.members]
        if not self.classes:
            parts = [w * numbers for w, numbers in zip(self.weights, predicted, strict=True)]
            return torch.stack(parts).sum(dim=0)
        columns: list[Tensor | float] = [0.0] * self.classes
        members = zip(predicted, self.weights, self.temperatures, self.known, strict=True)
        for probabilities, weight, temperature, known in members:
            weighted = weight * _tempered(probabilities, temperature)
            for place, position in enumerate(known):
                columns[position] = columns[position] + weighted[:, place]
        nothing = torch.zeros_like(rows[:, 0])
        total = torch.stack([nothing + column for column in columns], dim=1)
        if self.temperature != 1:
            total = _tempered(total, self.temperature)
        return total.clamp(min=SMALLEST).log().float()


class ExactNetwork(nn.Module):
    """A predictor whose algorithm was fitted at once, as layers: inputs → outputs."""

    def __init__(self, network: Predictor | RowPredictor) -> None:
        super().__init__()
        self.stem = nn.Identity() if network.stem is None else network.stem
        self.ensemble = EnsembleLayer(network.algorithm.head.ensemble)

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities or numbers for inputs, uint8 or floating point."""
        predicted: Tensor = self.ensemble(self.stem(as_numbers(x)))
        return predicted


class LinearLayer(nn.Module):
    """scikit-learn's `Ridge`: features [n, k] → numbers [n, 1]."""

    coefficients: Tensor
    intercepts: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        columns = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64)).T
        self.register_buffer("coefficients", torch.tensor(columns))
        self.register_buffer("intercepts", torch.tensor(model.intercept_, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        """Return numbers, or the logits of classes."""
        return features @ self.coefficients + self.intercepts


class LogisticLayer(LinearLayer):
    """scikit-learn's `LogisticRegression`: features [n, k] → probabilities [n, c]."""

    def forward(self, features: Tensor) -> Tensor:
        """Return probabilities."""
        return class_probabilities(super().forward(features))


# The equivalent layer of each type of model.
LAYERS: dict[str, Callable[[Any], nn.Module]] = {
    "LogisticRegression": LogisticLayer,
    "RandomForestClassifier": ForestLayer,
    "ExtraTreesClassifier": ForestLayer,
    "HistGradientBoostingClassifier": BoostingLayer,
    "Ridge": LinearLayer,
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
    """Return tempered probabilities, as `learners.criterion.tempered` does."""
    return (predicted.clamp(min=SMALLEST).log() / temperature).softmax(dim=1)
