"""Boosted trees as a few arrays, as `packed_forest` has forests.

scikit-learn's boosting is a list of trees, each with three arrays.  Joined, they are stored many
times as fast.  What is read is checked before it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

PARTS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
WORDS = 8  # of 32 bits: a set of 256 categories
# What a prediction does not need: how many samples a node had, and what it gained.
FORGOTTEN = ("count", "gain", "bin_threshold")


def pack(model: Any) -> Any:
    """Return a copy of a boosting model with joined arrays in place of its trees.

    So is one of each target.  Other models are returned as they are.
    """
    if _of_targets(model):
        return _with_each(model, pack)
    stages = getattr(model, "_predictors", None)
    if not isinstance(stages, list):
        return model
    trees = [tree for stage in stages for tree in stage]
    joined: dict[str, Any] = {"a_stage": len(stages[0])}
    for part in PARTS:
        arrays = [getattr(tree, part) for tree in trees]
        joined[part] = np.concatenate(arrays)
        joined[f"{part}_sizes"] = np.array([len(array) for array in arrays])
    for name in FORGOTTEN:
        joined["nodes"][name] = 0
    small = copy.copy(model)
    small._predictors = joined
    return small


def unpack(model: Any) -> Any:
    """Return the model that `pack` was given, for predictions; ValueError if it is damaged."""
    if _of_targets(model):
        return _with_each(model, unpack)
    joined = getattr(model, "_predictors", None)
    if not isinstance(joined, dict):
        return model
    from sklearn.ensemble._hist_gradient_boosting.predictor import (  # type: ignore[import-untyped]
        TreePredictor,
    )

    _check(joined, int(model.n_features_in_))
    parts = [np.split(joined[part], np.cumsum(joined[f"{part}_sizes"])[:-1]) for part in PARTS]
    trees = [
        TreePredictor(*(np.ascontiguousarray(p) for p in own)) for own in zip(*parts, strict=True)
    ]
    count = joined["a_stage"]
    whole = copy.copy(model)
    whole._predictors = [trees[start : start + count] for start in range(0, len(trees), count)]
    return whole


def _of_targets(model: Any) -> bool:
    from sklearn.multioutput import MultiOutputRegressor  # type: ignore[import-untyped]

    return isinstance(model, MultiOutputRegressor)


def _with_each(model: Any, change: Callable[[Any], Any]) -> Any:
    """Return models of several targets, each changed."""
    changed = copy.copy(model)
    changed.estimators_ = [change(each) for each in model.estimators_]
    changed.estimator = changed.estimators_[0]
    return changed


def _check(joined: dict[str, Any], columns: int) -> None:
    """Refuse trees in which a row could leave the arrays, or go on for ever."""
    nodes, sizes = joined["nodes"], np.asarray(joined["nodes_sizes"])
    sets = joined["raw_left_cat_bitsets"]
    of_sets = np.asarray(joined["raw_left_cat_bitsets_sizes"])
    sound = (
        len(sizes) == len(of_sets) == len(joined["binned_left_cat_bitsets_sizes"]) > 0
        and (sizes > 0).all()
        and (of_sets >= 0).all()
        and nodes.shape == (int(sizes.sum()),)
        and sets.shape == joined["binned_left_cat_bitsets"].shape == (int(of_sets.sum()), WORDS)
        and joined["a_stage"] > 0
        and len(sizes) % joined["a_stage"] == 0
    )
    if sound:
        own = np.arange(len(nodes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        size, inner = np.repeat(sizes, sizes), nodes["is_leaf"] == 0
        by_set = inner & (nodes["is_categorical"] != 0)
        sound = (
            # Children come after their parent, so that every row arrives in a leaf.
            all(((nodes[s] > own) & (nodes[s] < size))[inner].all() for s in ("left", "right"))
            and ((nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < columns))[inner].all()
            and (nodes["bitset_idx"] < np.repeat(of_sets, sizes))[by_set].all()
        )
    if not sound:
        raise ValueError("the trees of a boosting model are damaged")
