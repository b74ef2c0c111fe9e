"""Forests and boosted trees as torch modules.

They compare exactly the same numbers as scikit-learn, so rows take the same branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.core.errors import InvalidValue
from shiftproof.models.risk import class_probabilities


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
