"""Fitted linear models and trees as arrays: prediction with NumPy, and reading from scikit-learn.

A model maps raw rows [n, columns] to probabilities [n, k] of its k `classes`, given by their
positions among all classes, or to numbers [n, 1] in standard units if it has no classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np

from shiftproof.learners.array_model import ArrayModel, Part, require, under
from shiftproof.learners.encoding import Encoder
from shiftproof.learners.logistic import probabilities

# The prefix of the names of an encoder's arrays.
ENCODER = "encoder."
# The largest float32 number.
LARGEST = np.finfo(np.float32).max


@dataclass(frozen=True, eq=False)
class TableModel(ArrayModel):
    """A model with an encoder, or on raw rows if it has none."""

    classes: Annotated[np.ndarray, Part("i8", ("known classes",), below="classes")]
    encoder: Encoder | None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, also those of the encoder."""
        inner = {} if self.encoder is None else self.encoder.arrays()
        return super().arrays() | {ENCODER + name: array for name, array in inner.items()}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int], **others: Any
    ) -> Self:
        """Return the model with these arrays, or raise `ValueError` if they are not valid.

        `sizes` has the number of raw columns and of all classes.
        """
        inner = under(ENCODER, arrays)
        encoder = Encoder.from_arrays(inner, sizes) if inner else None
        features = sizes["columns"] if encoder is None else encoder.width
        rest = {name: array for name, array in arrays.items() if not name.startswith(ENCODER)}
        return super().from_arrays(rest, {**sizes, "features": features}, **others, encoder=encoder)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless the arrays fit each other."""
        require((np.diff(self.classes) > 0).all(), "classes must be sorted")

    def features(self, x: np.ndarray) -> np.ndarray:
        """Return the features of raw rows."""
        return x if self.encoder is None else self.encoder.transform(x)

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts probabilities."""
        return len(self.classes) > 0

    def _logits(self) -> int:
        """Return the number of logits, or 1 for numbers."""
        return len(self.classes) if len(self.classes) > 2 else 1


@dataclass(frozen=True, eq=False)
class LinearModel(TableModel):
    """Logistic or ridge regression: features x → logits or numbers W x + b."""

    coefficients: Annotated[np.ndarray, Part("f8", ("outputs", "features"))]
    intercepts: Annotated[np.ndarray, Part("f8", ("outputs",))]

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless the arrays fit each other."""
        super().check(sizes)
        require(len(self.intercepts) == self._logits(), "outputs and classes differ")

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities [n, k], or numbers [n, 1]."""
        outputs = self.features(x) @ self.coefficients.T + self.intercepts
        return probabilities(outputs) if self.is_classifier else outputs


@dataclass(frozen=True, eq=False)
class TreeModel(TableModel):
    """The mean of trees, features x → values of the leaves that x reaches; if `boosted`, their sum.

    The mean is of class shares or numbers.  The sum, added to `baseline`, are logits or numbers.

    The nodes of all trees are joined; `sizes` are their numbers.  A node with a `right` child
    sends a row left, to the next node, if its feature is at most the threshold, or if the feature
    is missing and `missing_left`; else to the right, so many nodes after the first of its tree.
    Other nodes are leaves, `right` 0, whose `values` [leaves, v] are for all outputs, or for one
    if v is 1: for tree t, that is output t modulo the number of outputs.

    Each set adds a feature, 0 if it contains the code in its column and 1 if not.  `sets` are
    indexed by code + 1; the last entry is for missing values and all other codes.
    """

    sizes: Annotated[np.ndarray, Part("i8", ("trees",))]
    right: Annotated[np.ndarray, Part("i4", ("nodes",))]
    feature: Annotated[np.ndarray, Part("i4", ("nodes",))]
    threshold: Annotated[np.ndarray, Part("f4", ("nodes",))]
    missing_left: Annotated[np.ndarray, Part("?", ("nodes",))]
    values: Annotated[np.ndarray, Part("f8", ("leaves", "values"))]
    baseline: Annotated[np.ndarray, Part("f8", ("outputs",))]
    sets: Annotated[np.ndarray, Part("?", ("sets", "codes"))]
    set_columns: Annotated[np.ndarray, Part("i8", ("sets",), below="features")]
    boosted: bool = False

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `ValueError` unless every row reaches a leaf of every tree."""
        super().check(sizes)
        nodes = len(self.right)
        require(((self.sizes > 0) & (self.sizes <= nodes)).all(), "a tree has no node")
        require(nodes and self.sizes.sum() == nodes, "sizes and nodes differ")
        first = np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        node = np.arange(nodes) - first
        inner = self.right != 0
        # Children come after their parent, so there is no cycle.
        inside = (self.right > node + 1) & (self.right < np.repeat(self.sizes, self.sizes))
        require(inside[inner].all(), "a child does not come after its parent in its tree")
        used, count = self.feature[inner], sizes["features"] + len(self.sets)
        require(((used >= 0) & (used < count)).all(), "no such feature")
        require(len(self.values) == (~inner).sum(), "values and leaves differ")
        shares = self.is_classifier and not self.boosted
        outputs = len(self.classes) if shares else self._logits()
        require(len(self.baseline) == outputs, "outputs and classes differ")
        require(self.values.shape[1] in (1, outputs), "values and outputs differ")
        require(self.sets.shape[1] > 0, "a set has no code")
        require(self.boosted or (self.baseline == 0).all(), "a mean of trees has a baseline")
        if shares:
            sums = self.values.sum(axis=1)
            require(np.allclose(sums, 1) and (self.values >= 0).all(), "a leaf has no shares")

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities [n, k], or numbers [n, 1]."""
        outputs = len(self.baseline)
        total = np.tile(self.baseline, (len(x), 1))
        for tree, leaf in enumerate(self._leaves(self.tree_features(x))):
            values = self.values[leaf]
            if values.shape[1] == outputs:
                total += values
            else:
                total[:, tree % outputs] += values[:, 0]
        if not self.boosted:
            return total / len(self.sizes)
        return probabilities(total) if self.is_classifier else total

    def tree_features(self, x: np.ndarray) -> np.ndarray:
        """Return the features [n, features + sets] of raw rows, in float32."""
        features = self.features(x)
        codes = features[:, self.set_columns]
        last = self.sets.shape[1] - 1
        with np.errstate(invalid="ignore"):
            known = (codes == np.floor(codes)) & (codes >= -1) & (codes + 1 < last)
            position = np.where(known, codes + 1, last).astype(np.int64)
        outside = ~self.sets[np.arange(len(self.sets)), position]
        return np.hstack([features, outside]).astype(np.float32)

    def _leaves(self, features: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the number [n] of the leaf, among those of all trees, that each row reaches."""
        rows = np.arange(len(features))
        missing = np.isnan(features)
        leaves = np.cumsum(self.right == 0) - 1
        ends = np.cumsum(self.sizes)
        for first, end in zip(ends - self.sizes, ends, strict=True):
            right, feature = self.right[first:end], self.feature[first:end]
            threshold, missing_left = self.threshold[first:end], self.missing_left[first:end]
            node = np.zeros(len(rows), dtype=np.intp)
            while (inner := right[node]).any():
                column = np.where(inner, feature[node], 0)
                left = features[rows, column] <= threshold[node]
                left |= missing[rows, column] & missing_left[node]
                node = np.where(inner == 0, node, np.where(left, node + 1, inner))
            yield leaves[first + node]


def forest_model(forest: Any, encoder: Encoder | None) -> TreeModel:
    """Return scikit-learn's fitted forest on encoded rows, without what only training needs."""
    trees = [grown.tree_ for grown in forest.estimators_]
    classes = np.asarray(getattr(forest, "classes_", ()), dtype=np.int64)
    values = [tree.value.reshape(tree.node_count, -1) for tree in trees]
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0
    none = np.zeros((0, 1), dtype=bool)
    return TreeModel(
        classes,
        encoder,
        np.array([tree.node_count for tree in trees]),
        _right_children([(tree.children_left, tree.children_right) for tree in trees]),
        np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])),
        _rounded_down(np.concatenate([tree.threshold for tree in trees])),
        np.concatenate([tree.missing_go_to_left for tree in trees]).astype(bool),
        np.concatenate(values)[leaf],
        np.zeros(values[0].shape[1]),
        none,
        np.zeros(0, dtype=np.int64),
    )


def boosting_model(model: Any) -> TreeModel:
    """Return scikit-learn's fitted histogram boosting; raise `ValueError` for unusual categories.

    Its trees index columns in their own order, with the categorical columns first, and its sets
    index categories by their order.  Here, both are those of the raw rows.
    """
    columns, categories = np.arange(model.n_features_in_), []
    if model.is_categorical_ is not None:
        mask = model.is_categorical_
        columns = np.concatenate([columns[mask], columns[~mask]])
        encoder = model._preprocessor.named_transformers_["encoder"]
        categories = [codes[~np.isnan(codes)] for codes in encoder.categories_]
    if any((codes != codes.round()).any() or (codes < -1).any() for codes in categories):
        raise ValueError("the categories are not codes 0, 1, …")
    predictors = [predictor for stage in model._predictors for predictor in stage]
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    leaf = nodes["is_leaf"].astype(bool)
    by_set = nodes["is_categorical"].astype(bool) & ~leaf
    bitsets = [predictor.raw_left_cat_bitsets for predictor in predictors]
    starts = np.cumsum([0, *map(len, bitsets[:-1])])
    tree = np.repeat(np.arange(len(predictors)), [len(one.nodes) for one in predictors])
    words = np.concatenate(bitsets)[(starts[tree] + nodes["bitset_idx"])[by_set]]
    feature = columns[np.where(leaf, 0, nodes["feature_idx"])]
    widest = max([-1, *(int(codes.max()) for codes in categories if len(codes))])
    # Codes not seen in training go where missing values go.
    sets = np.repeat(nodes["missing_go_to_left"][by_set, None].astype(bool), widest + 3, axis=1)
    for inside, word, split in zip(sets, words, nodes["feature_idx"][by_set], strict=True):
        codes = categories[split].astype(int)
        order = np.arange(len(codes))
        inside[codes + 1] = (word[order // 32] >> (order % 32)) & 1 == 1
    pairs, numbers = np.unique(
        np.column_stack([feature[by_set], sets]), axis=0, return_inverse=True
    )
    feature[by_set] = len(columns) + numbers.ravel()
    return TreeModel(
        np.asarray(getattr(model, "classes_", ()), dtype=np.int64),
        None,
        np.array([len(predictor.nodes) for predictor in predictors]),
        _right_children([(one.nodes["left"], one.nodes["right"]) for one in predictors]),
        np.where(leaf, 0, feature),
        np.where(by_set, np.float32(0.5), _rounded_down(nodes["num_threshold"])),
        nodes["missing_go_to_left"].astype(bool),
        nodes["value"][leaf, None],
        np.ravel(model._baseline_prediction).astype(np.float64),
        pairs[:, 1:].astype(bool),
        pairs[:, 0].astype(np.int64),
        boosted=True,
    )


def _right_children(trees: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the right child of each node, 0 for a leaf; the left child is the next node."""
    rights = []
    for left, right in trees:
        children = right.astype(np.int64)
        inner = (left > 0) & (left < len(left))
        if (left[inner] != np.flatnonzero(inner) + 1).any():
            raise ValueError("a left child does not follow its parent")
        rights.append(np.where(inner, children, 0))
    return np.concatenate(rights)


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Return the largest float32 numbers that are at most the thresholds.

    Features are float32, so they are at most the threshold exactly if they are at most these.
    """
    bounded = np.clip(threshold, -LARGEST, LARGEST)
    near = bounded.astype(np.float32)
    lower: np.ndarray = np.where(near > bounded, np.nextafter(near, np.float32(-np.inf)), near)
    return lower
