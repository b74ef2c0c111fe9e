"""What shifts between domains, how much of each kind there is, and where.

All amounts are mutual information in nats, with all domains equally likely, as in training;
`information.base` names the five.  Features with few distinct rows are counted; of others,
`posteriors` has the classifiers that the amounts come from, and why they are lower bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr  # type: ignore[import-untyped]

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.data.base import Progress, silent
from shiftproof.information import Counts, Estimate, Shift, estimator_for
from shiftproof.information.contingency import contingency
from shiftproof.information.sample import Floats, Sample, as_table, checked, varying
from shiftproof.shift.drops import ColumnTrial, Drop, column_trials, drops_of
from shiftproof.shift.localize import (
    MovedClass,
    MovedFeature,
    Pair,
    match,
    moved_classes,
    moved_features,
    pairs_of,
    stratified,
)
from shiftproof.shift.posteriors import FOLDS, Combined, Posteriors, posteriors

MOST_SAMPLES = 10_000
PERMUTATIONS = 99


@dataclass(frozen=True)
class Prediction:
    """How well the classifiers predict, out of sample and with all domains counted alike.

    `label` and `label_knowing_domain` are the shares of labels that they get right,
    `commonest_label` what always naming one class would, `domain` the share of domains;
    `uncertainty` is the cross-entropy of the label given the input, no less than H(Y|X).
    """

    label: float
    label_knowing_domain: float
    commonest_label: float
    domain: float
    uncertainty: float


@dataclass(frozen=True, eq=False)
class ModelView:
    """What a trained model makes of samples: R [n, k], its risks [n], and where it is right [n]."""

    name: str
    representations: Floats
    risks: Floats
    right: NDArray[np.bool_]

    def take(self, rows: np.ndarray) -> ModelView:
        """Return the view of some of the samples."""
        return ModelView(self.name, self.representations[rows], self.risks[rows], self.right[rows])


@dataclass(frozen=True)
class ModelShift:
    """The amounts with a model's R in the place of X, I(L;D), and how it does on each domain."""

    name: str
    shift: Shift
    risk_shift: Estimate
    risks: tuple[float, ...]
    accuracies: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What shifts.

    `counts` [domains][classes] are the samples measured; `left_out` more were not, being too
    many.  `drops` are the points that held-out domains lose, `trials` what they gain without a
    column.  `features` begin with the one that moves most; pairs and classes keep their order.
    """

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int
    level: float
    shift: Shift
    domain_entropy: float
    prediction: Prediction
    pairs: tuple[Pair, ...]
    features: tuple[MovedFeature, ...]
    moved_classes: tuple[MovedClass, ...]
    drops: tuple[Drop, ...] = ()
    trials: tuple[ColumnTrial, ...] = ()
    model: ModelShift | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many samples of each domain were measured."""
        return tuple(map(sum, self.counts))

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def check_most(most: int, domains: int) -> None:
    """Raise if `most` samples are too few for so many domains."""
    if most < FOLDS * domains:
        raise InvalidValue(
            f"{most} samples are too few for {domains} domains; at least {FOLDS} each are needed"
        )


def diagnose(
    x: ArrayLike,
    y: ArrayLike,
    d: ArrayLike,
    *,
    domains: Sequence[str],
    classes: Sequence[str],
    features: Sequence[str] | None = None,
    seed: int,
    level: float = 0.95,
    permutations: int = PERMUTATIONS,
    most: int = MOST_SAMPLES,
    model: ModelView | None = None,
    drops: bool = True,
    progress: Progress = silent,
) -> Diagnosis:
    """Measure all shifts of features x [n, k], labels y [n] and domains d [n].

    Labels and domains are positions in `classes` and `domains`; those without a sample are
    left out.  Features without names are called by their position.  Of more than `most` samples
    so many are measured, chosen by `seed` (see `localize.stratified`).  Without `drops`, held-out
    domains are not predicted, which takes time.
    """
    table, labels, codes = as_table(x), np.asarray(y), np.asarray(d)
    names = tuple(features or (f"feature {i}" for i in range(table.shape[1])))
    if len(names) != table.shape[1]:
        raise InvalidValue(f"{len(names)} names do not fit {table.shape[1]} features")
    if permutations < 1:
        raise InvalidValue(f"at least 1 permutation is needed, not {permutations}")
    check_most(most, len(domains))
    if not len(table) == len(labels) == len(codes):
        raise DataError(
            f"{len(table)} rows of features, {len(labels)} labels and {len(codes)} domains do not"
            " belong to the same samples"
        )
    kept = stratified(codes, most, seed)
    left_out = len(codes) - len(kept)
    table, labels, codes = table[kept], labels[kept], codes[kept]
    there = tuple(domains[position] for position in np.unique(codes))
    labelled = tuple(classes[position] for position in np.unique(labels))
    _refuse_what_shows_nothing(codes, there, labelled)
    sample = checked(table, labels, codes, balanced=True)
    if sample.x.shape[1] == 0:
        raise DataError(f"none of the {len(names)} features varies: there is nothing to measure")

    steps, done = FOLDS * (2 if model else 1) + 2, itertools.count()

    def tick() -> None:
        progress("measuring shifts", next(done), steps)

    tick()
    settings = {"seed": seed, "balanced": True, "level": level, "permutations": permutations}
    measure = _Measure(settings, tick)
    shift, found = measure(table, labels, codes)
    matched = match(table, codes, seed)
    tick()
    moving = moved_features(matched, names, there)
    left = [names[column] for column in varying(table)]
    moved = [left.index(each.name) for each in moving if each.p_value <= 1 - level]
    tick()
    return Diagnosis(
        domains=there,
        classes=labelled,
        counts=tuple(tuple(row) for row in contingency(sample.y, sample.d).T.tolist()),
        left_out=left_out,
        level=level,
        shift=shift,
        domain_entropy=float(entr(sample.shares).sum()),
        prediction=_prediction(sample, found),
        pairs=pairs_of(sample, found, matched, there),
        features=moving,
        moved_classes=moved_classes(sample, found, labelled),
        drops=drops_of(sample, found, there, labelled, level=level) if drops else (),
        trials=column_trials(sample, moved, left, level=level) if drops else (),
        model=_model_shift(model.take(kept), labels, codes, measure) if model else None,
    )


@dataclass(frozen=True)
class _Measure:
    """How to measure: the same for inputs and for representations."""

    settings: dict[str, Any]
    tick: Callable[[], None]

    def __call__(self, x: ArrayLike, y: ArrayLike, d: ArrayLike) -> tuple[Shift, Posteriors]:
        """Return the amounts, and the posteriors."""
        usual = estimator_for(x, d, **self.settings)
        sample = checked(x, y, d, balanced=True)
        found = posteriors(sample, seed=self.settings["seed"], tick=self.tick)
        exact = isinstance(usual, Counts)
        estimator = usual if exact else Combined(found=found, **self.settings)
        return estimator.measure(x, y, d), found

    def covariate(self, x: ArrayLike, d: ArrayLike) -> Estimate:
        """Return I(X;D) alone."""
        return estimator_for(x, d, **self.settings).covariate(x, d)


def _prediction(sample: Sample, found: Posteriors) -> Prediction:
    own = np.arange(len(sample.d))
    mixed = found.mixed_label

    def share(right: NDArray[np.bool_]) -> float:
        return float(sample.weights @ right)

    return Prediction(
        label=share(mixed.argmax(axis=1) == sample.y),
        label_knowing_domain=share(found.label[own, sample.d].argmax(axis=1) == sample.y),
        commonest_label=float(np.bincount(sample.y, sample.weights).max()),
        domain=share(found.domain.argmax(axis=1) == sample.d),
        uncertainty=float(-sample.weights @ mixed[own, sample.y]),
    )


def _model_shift(
    model: ModelView, labels: np.ndarray, codes: np.ndarray, measure: _Measure
) -> ModelShift:
    shift, _ = measure(model.representations, labels, codes)
    named = {
        field.name: replace(
            getattr(shift, field.name), symbol=getattr(shift, field.name).symbol.replace("X", "R")
        )
        for field in fields(Shift)
    }
    members = [codes == domain for domain in np.unique(codes)]
    return ModelShift(
        name=model.name,
        shift=Shift(**named),
        risk_shift=replace(measure.covariate(model.risks, codes), symbol="I(L;D)"),
        risks=tuple(float(model.risks[rows].mean()) for rows in members),
        accuracies=tuple(float(model.right[rows].mean()) for rows in members),
    )


def _refuse_what_shows_nothing(
    codes: np.ndarray, domains: Sequence[str], classes: Sequence[str]
) -> None:
    if len(domains) < 2:
        raise DataError(
            f"all {len(codes)} samples are of one domain, {domains[0]!r}; a shift is measured"
            " between at least two"
        )
    if len(classes) < 2:
        raise DataError(
            f"all {len(codes)} samples are of one class, {classes[0]!r}; at least two are needed"
        )
    sizes = np.unique(codes, return_counts=True)[1]
    if sizes.min() < FOLDS:
        raise DataError(
            f"domain {domains[int(sizes.argmin())]!r} has {sizes.min()} samples, fewer than the"
            f" {FOLDS} parts that classifiers are tried on; leave it out"
        )
