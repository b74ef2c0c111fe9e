"""Storing boosted trees as a few arrays, as `packed_forest` does for forests.

scikit-learn's boosting models are lists of trees, each with three arrays.  Joined arrays are much
faster to store.  Loaded arrays are checked before use.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

PARTS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
WORDS = 8  # of 32 bits: a set of 256 categories
# Fields that predictions do not need, such as the number of samples in a node and its gain.
FORGOTTEN = ("count", "gain", "bin_threshold")


def pack(model: Any) -> Any:
    """Return a copy of a boosting model with its trees joined into arrays; any other unchanged."""
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
    """Undo `pack`, as far as predictions need it; raise ValueError if the model is damaged."""
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


def _check(joined: dict[str, Any], columns: int) -> None:
    """Reject trees with out-of-range indices or cycles."""
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
            # Children come after their parent, so every row reaches a leaf.
            all(((nodes[s] > own) & (nodes[s] < size))[inner].all() for s in ("left", "right"))
            and ((nodes["feature_idx"] >= 0) & (nodes["feature_idx"] < columns))[inner].all()
            and (nodes["bitset_idx"] < np.repeat(of_sets, sizes))[by_set].all()
        )
    if not sound:
        raise ValueError("the trees of a boosting model are damaged")
