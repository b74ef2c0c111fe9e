"""What shifts between domains, how much of each kind there is, and where.

All amounts are mutual information in nats, with all domains equally likely, as in training;
`information.base` names the five.  Two estimates are made (`posteriors` says why), and the one with
the higher lower ends of its intervals for I(X;D) and I(X,Y;D) is reported: apart from chance,
neither finds more than there is.
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
from shiftproof.information.sample import Floats, Sample, as_table, checked
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
from shiftproof.shift.posteriors import FOLDS, ByNetwork, Posteriors, posteriors

MOST_SAMPLES = 10_000
PERMUTATIONS = 199


@dataclass(frozen=True)
class Prediction:
    """How well networks predict, out of sample and with all domains counted alike.

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
    missed: float
    risk_shift: Estimate
    risks: tuple[float, ...]
    accuracies: tuple[float, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What shifts.

    `counts` [domains][classes] are the samples measured; `left_out` more were not, being too
    many.  `missed` is the covariate shift that the weaker of two kinds of classifiers did not
    see: so much of the concept shift may be covariate shift, and its interval reaches down by it.
    `features` begin with the one that moves most; pairs and classes keep their given order.
    """

    domains: tuple[str, ...]
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    left_out: int
    level: float
    shift: Shift
    missed: float
    domain_entropy: float
    prediction: Prediction
    pairs: tuple[Pair, ...]
    features: tuple[MovedFeature, ...]
    moved_classes: tuple[MovedClass, ...]
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
    progress: Progress = silent,
) -> Diagnosis:
    """Measure all shifts of features x [n, k], labels y [n] and domains d [n].

    Labels and domains are positions in `classes` and `domains`; those without a sample are
    left out.  Features without names are called by their position.  Of more than `most` samples
    so many are measured, chosen by `seed` (see `localize.stratified`).
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

    steps, done = (FOLDS * 2 + 1) * (2 if model else 1) + 1, itertools.count()

    def tick() -> None:
        progress("measuring shifts", next(done), steps)

    tick()
    settings = {"seed": seed, "balanced": True, "level": level, "permutations": permutations}
    measure = _Measure(settings, tick)
    shift, missed, found = measure(table, labels, codes)
    matched = match(table, codes, seed)
    tick()
    return Diagnosis(
        domains=there,
        classes=labelled,
        counts=tuple(tuple(row) for row in contingency(sample.y, sample.d).T.tolist()),
        left_out=left_out,
        level=level,
        shift=shift,
        missed=missed,
        domain_entropy=float(entr(sample.shares).sum()),
        prediction=_prediction(sample, found),
        pairs=pairs_of(sample, found, matched, there),
        features=moved_features(matched, names, there),
        moved_classes=moved_classes(sample, found, labelled),
        model=_model_shift(model.take(kept), labels, codes, measure) if model else None,
    )


@dataclass(frozen=True)
class _Measure:
    """How to measure: the same for inputs and for representations."""

    settings: dict[str, Any]
    tick: Callable[[], None]

    def __call__(self, x: ArrayLike, y: ArrayLike, d: ArrayLike) -> tuple[Shift, float, Posteriors]:
        """Return the better of two estimates, what the weaker missed, and the posteriors."""
        usual = estimator_for(x, d, **self.settings)
        one = usual.measure(x, y, d)
        self.tick()
        found = posteriors(
            checked(x, y, d, balanced=True), seed=self.settings["seed"], tick=self.tick
        )
        if isinstance(usual, Counts):  # exact: nothing can be missed
            return one, 0.0, found
        other = ByNetwork(found=found, **self.settings).measure(x, y, d)
        missed = max(0.0, other.covariate.value - one.covariate.value)
        return _better(one, other, missed), missed, found

    def covariate(self, x: ArrayLike, d: ArrayLike) -> Estimate:
        """Return I(X;D) alone."""
        return estimator_for(x, d, **self.settings).covariate(x, d)


def _better(one: Shift, other: Shift, missed: float) -> Shift:
    """Return the estimate that can vouch for more, with the p-values of `one` and both's doubts.

    What either may have missed, its interval's upper end says best, so the larger is taken.  Of
    the concept shift, whose estimate may also be too large, the smaller of the lower ends and the
    larger of the p-values are taken, and `missed` is allowed for; the other p-values do not
    depend on the estimate.
    """
    better = max(one, other, key=lambda s: s.covariate.interval[0] + s.joint.interval[0])
    merged = {}
    for name in (field.name for field in fields(Shift)):
        both = [getattr(one, name), getattr(other, name)]
        kept = getattr(better, name)
        high = max(estimate.interval[1] for estimate in both)
        merged[name] = replace(
            kept, interval=(kept.interval[0], high), p_value=getattr(one, name).p_value
        )
    low = min(one.concept.interval[0], other.concept.interval[0])
    high = max(one.concept.interval[1] - missed, other.concept.interval[1])
    p_values = [p for p in (one.concept.p_value, other.concept.p_value) if p is not None]
    merged["concept"] = replace(
        better.concept,
        interval=(max(low - missed, 0.0), max(high, better.concept.value)),
        p_value=max(p_values, default=None),
    )
    return Shift(**merged)


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
    shift, missed, _ = measure(model.representations, labels, codes)
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
        missed=missed,
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
