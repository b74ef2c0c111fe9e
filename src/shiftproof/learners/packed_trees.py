"""Storing forests and boosted trees as a few arrays, which takes about a hundredth of a second.

scikit-learn's forests are lists of trees with about twenty attributes each, which take longer to
store than the trees take to grow; its boosting models are lists of trees with three arrays each.
Predictions need only the splits and the values in each leaf.  The rest (the number of samples in a
node and its impurity) is not stored.

Loaded arrays are checked before use, because scikit-learn follows child and column indices without
bounds checks.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

# The child index of a leaf.
LEAF = -1
# The arrays of a boosted tree.
PARTS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
WORDS = 8  # of 32 bits: a set of 256 categories
# Fields that predictions do not need, such as the number of samples in a node and its gain.
FORGOTTEN = ("count", "gain", "bin_threshold")


def pack(model: Any) -> Any:
    """Return a copy of a model with its trees, if any, joined into arrays."""
    return _pack_boosting(_pack_forest(model))


def unpack(model: Any) -> Any:
    """Undo `pack`, as far as predictions need it; raise ValueError if the model is damaged."""
    return _unpack_boosting(_unpack_forest(model))


def _pack_forest(model: Any) -> Any:
    """Return a copy of a pipeline with the trees of its forest, if any, joined into arrays.

    The arrays are `left`, `right`, `feature`, `threshold` and `missing_left` per node, `shares`
    [leaves, c] per leaf (for regression, values [leaves, 1]), and `nodes` and `depth` per
    tree.
    """
    forest = _last(model)
    grown = getattr(forest, "estimators_", None)
    if not isinstance(grown, list) or not all(hasattr(one, "tree_") for one in grown):
        return model
    trees = [one.tree_ for one in grown]
    joined = {
        "left": np.concatenate([tree.children_left for tree in trees]),
        "right": np.concatenate([tree.children_right for tree in trees]),
        "feature": np.concatenate([tree.feature for tree in trees]),
        "threshold": np.concatenate([tree.threshold for tree in trees]),
        "missing_left": np.concatenate([tree.missing_go_to_left for tree in trees]),
        "shares": np.concatenate([_values(t)[t.children_left == LEAF] for t in trees]),
        "nodes": np.array([tree.node_count for tree in trees]),
        "depth": np.array([tree.max_depth for tree in trees]),
    }
    small = copy.copy(forest)
    small.estimators_ = joined
    return _with_last(model, small)


def _unpack_forest(model: Any) -> Any:
    """Undo `_pack_forest`; raise ValueError if the model is damaged."""
    forest = _last(model)
    joined = getattr(forest, "estimators_", None)
    if not isinstance(joined, dict):
        return model
    from sklearn.tree._tree import NODE_DTYPE, Tree  # type: ignore[import-untyped]

    # A regression leaf has one value, stored like a single class.
    columns, classes = int(forest.n_features_in_), int(getattr(forest, "n_classes_", 1))
    _check_forest(joined, columns, classes)
    ends = np.cumsum(joined["nodes"])
    leaf = joined["left"] == LEAF
    before = np.concatenate([[0], np.cumsum(leaf)])
    whole = copy.copy(forest)
    whole.estimators_ = []
    for start, end, depth in zip(ends - joined["nodes"], ends, joined["depth"], strict=True):
        nodes = np.zeros(end - start, dtype=NODE_DTYPE)
        nodes["left_child"] = joined["left"][start:end]
        nodes["right_child"] = joined["right"][start:end]
        nodes["feature"] = joined["feature"][start:end]
        nodes["threshold"] = joined["threshold"][start:end]
        nodes["missing_go_to_left"] = joined["missing_left"][start:end]
        values = np.zeros((end - start, 1, classes))
        own = joined["shares"][before[start] : before[end]]
        values[leaf[start:end]] = own[:, None]
        tree = Tree(columns, np.array([classes], dtype=np.intp), 1)
        tree.__setstate__(
            {"max_depth": int(depth), "node_count": len(nodes), "nodes": nodes, "values": values}
        )
        grown = copy.copy(forest.estimator_)
        grown.tree_, grown.n_outputs_, grown.n_features_in_ = tree, 1, columns
        if hasattr(forest, "classes_"):
            grown.n_classes_, grown.classes_ = classes, forest.classes_
        whole.estimators_.append(grown)
    return _with_last(model, whole)


def _values(tree: Any) -> np.ndarray:
    """Return the class shares [nodes, c] or values [nodes, 1] of a tree's nodes."""
    return np.asarray(tree.value).reshape(tree.node_count, -1)


def _check_forest(joined: dict[str, Any], columns: int, classes: int) -> None:
    """Reject trees with out-of-range indices or cycles."""
    sizes = np.asarray(joined["nodes"])
    total, leaf = int(sizes.sum()), joined["left"] == LEAF
    own = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = np.repeat(sizes, sizes)
    arrays = [joined[k] for k in ("left", "right", "feature", "threshold", "missing_left")]
    sound = (
        (sizes > 0).all()
        and len(joined["depth"]) == len(sizes)
        and all(array.shape == (total,) for array in arrays)
        and joined["shares"].shape == (int(leaf.sum()), classes)
        and (joined["right"][leaf] == LEAF).all()
        # Children come after their parent, so every row reaches a leaf.
        and all(
            ((joined[side] > own) & (joined[side] < size))[~leaf].all()
            for side in ("left", "right")
        )
        and ((joined["feature"] >= 0) & (joined["feature"] < columns))[~leaf].all()
    )
    if not sound:
        raise ValueError("the trees of a forest are damaged")


def _last(model: Any) -> Any:
    steps = getattr(model, "steps", None)
    return steps[-1][1] if steps else model


def _with_last(model: Any, last: Any) -> Any:
    """Return a copy of the pipeline with another last step."""
    if not hasattr(model, "steps"):
        return last
    changed = copy.copy(model)
    changed.steps = [*model.steps[:-1], (model.steps[-1][0], last)]
    return changed


def _pack_boosting(model: Any) -> Any:
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


def _unpack_boosting(model: Any) -> Any:
    """Undo `_pack_boosting`; raise ValueError if the model is damaged."""
    joined = getattr(model, "_predictors", None)
    if not isinstance(joined, dict):
        return model
    from sklearn.ensemble._hist_gradient_boosting.predictor import (  # type: ignore[import-untyped]
        TreePredictor,
    )

    _check_boosting(joined, int(model.n_features_in_))
    parts = [np.split(joined[part], np.cumsum(joined[f"{part}_sizes"])[:-1]) for part in PARTS]
    trees = [
        TreePredictor(*(np.ascontiguousarray(p) for p in own)) for own in zip(*parts, strict=True)
    ]
    count = joined["a_stage"]
    whole = copy.copy(model)
    whole._predictors = [trees[start : start + count] for start in range(0, len(trees), count)]
    return whole


def _check_boosting(joined: dict[str, Any], columns: int) -> None:
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
