"""Measure the shifts between domains: which kinds there are, how large they are, and where.

All amounts are mutual information in nats, with all domains equally likely, as in training;
`information.base` defines the five.  Features with few distinct rows are measured by counting; for
others, `posteriors` describes the classifiers behind the amounts, and why these are lower bounds.
Labels without classes are numbers, which `number_posteriors` measures.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.data.base import Progress, silent
from shiftproof.information import Counts, Estimate, Matching, Shift, estimator_for, estimator_of
from shiftproof.information.contingency import contingency
from shiftproof.information.sample import Floats, Sample, as_table, checked, varying
from shiftproof.shift.diagnosis import (
    Diagnosis,
    ModelShift,
    ModelView,
    NumberPrediction,
    Prediction,
)
from shiftproof.shift.drops import (
    column_trials,
    drops_of,
    number_drops,
    points_of_r2,
    right_answers,
)
from shiftproof.shift.localize import (
    classes_apart,
    match,
    moved_classes,
    moved_features,
    number_labels,
    numbers_apart,
    pairs_of,
    stratified,
)
from shiftproof.shift.panel import leading_columns
from shiftproof.shift.posteriors import (
    FOLDS,
    Combined,
    NumberCombined,
    NumberPosteriors,
    Posteriors,
    checked_numbers,
    number_posteriors,
    posteriors,
)

MOST_SAMPLES = 10_000
PERMUTATIONS = 99


def check_most(most: int, domains: int) -> None:
    """Raise if `most` samples are too few for this number of domains."""
    if most < FOLDS * domains:
        raise InvalidValue(
            f"{most} samples are too few for {domains} domains; at least {FOLDS} per domain are"
            " needed"
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

    Labels and domains are positions in `classes` and `domains`; classes and domains without samples
    are left out.  Without `classes`, labels are numbers.  Features without names are named by their
    position.  At most `most` samples are measured, chosen by `seed` (see `localize.stratified`).
    Without `drops`, the slow prediction of held-out domains is skipped.
    """
    table, labels, codes = as_table(x), np.asarray(y), np.asarray(d)
    names = tuple(features or (f"feature {i}" for i in range(table.shape[1])))
    if len(names) != table.shape[1]:
        raise InvalidValue(f"`features` has {len(names)} names for {table.shape[1]} columns")
    if permutations < 1:
        raise InvalidValue(f"`permutations` must be at least 1, not {permutations}")
    check_most(most, len(domains))
    if not len(table) == len(labels) == len(codes):
        raise DataError(
            f"{len(table)} rows of features, {len(labels)} labels and {len(codes)} domains; every"
            " sample needs one of each"
        )
    kept = stratified(codes, most, seed)
    left_out = len(codes) - len(kept)
    table, labels, codes = table[kept], labels[kept], codes[kept]
    there = tuple(domains[position] for position in np.unique(codes))
    labelled = tuple(classes[position] for position in np.unique(labels)) if classes else ()
    _refuse_what_shows_nothing(codes, there, labels, labelled)
    sample, numbers = _sample(table, labels, codes, bool(classes))
    if sample.x.shape[1] == 0:
        raise DataError(f"all {len(names)} features are constant; there is nothing to measure")

    steps, done = FOLDS * (2 if model else 1) + 2, itertools.count()

    def tick() -> None:
        progress("measuring shifts", next(done), steps)

    tick()
    settings = {"seed": seed, "balanced": True, "level": level, "permutations": permutations}
    measure = _Measure(settings, tick)
    matched = match(table, codes, seed)
    moving = moved_features(matched, names, there)
    left = [names[column] for column in varying(table)]
    moved = [left.index(each.name) for each in moving if each.p_value <= 1 - level]
    tick()
    asked = _Asked(there, labelled, left, moved, matched, level, drops)
    if numbers is None:
        sample, shift, found = measure.classes(sample)
        measured = _of_classes(sample, found, asked)
    else:
        shift, numeric = measure.numbers(sample, numbers)
        measured = _of_numbers(sample, numbers, labels, numeric, asked)
    tick()
    return Diagnosis(
        domains=there,
        classes=labelled,
        left_out=left_out,
        level=level,
        shift=shift,
        domain_entropy=float(np.log(len(there))),
        features=moving,
        model=_model_shift(model.take(kept), labels, codes, bool(classes), measure)
        if model
        else None,
        **measured,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """Options of the further measurements: names, columns that move, and confidence level."""

    domains: Sequence[str]
    classes: Sequence[str]
    columns: Sequence[str]
    moved: Sequence[int]
    matched: Matching
    level: float
    drops: bool


def _of_classes(sample: Sample, found: Posteriors, asked: _Asked) -> dict[str, Any]:
    """Return the fields of a diagnosis that depend on the labels, if these are classes."""
    by_both = found.domain_given_label(sample.y)
    pairs = pairs_of(
        sample, found.domain, by_both, classes_apart(sample), asked.matched, asked.domains
    )
    fields: dict[str, Any] = {
        "counts": tuple(tuple(row) for row in contingency(sample.y, sample.d).T.tolist()),
        "prediction": _prediction(sample, found),
        "pairs": pairs,
        "moved_classes": moved_classes(sample, found, asked.classes),
    }
    if asked.drops:
        fields["drops"] = drops_of(sample, found, asked.domains, asked.classes, level=asked.level)
        fields["trials"] = column_trials(
            sample, asked.moved, asked.columns, right_answers(sample), level=asked.level
        )
    return fields


def _of_numbers(
    sample: Sample, y: Floats, labels: np.ndarray, found: NumberPosteriors, asked: _Asked
) -> dict[str, Any]:
    """Return the same fields for numeric labels; y [n] are standardised."""
    mean, unit = float(labels.mean()), float(labels.std())
    pairs = pairs_of(
        sample,
        found.domain,
        found.domain_given_label,
        numbers_apart(sample, y),
        asked.matched,
        asked.domains,
    )
    fields: dict[str, Any] = {
        "counts": tuple((int(size),) for size in np.bincount(sample.d)),
        "prediction": _number_prediction(sample, y, found),
        "pairs": pairs,
        "moved_classes": (),
        "numbers": number_labels(sample, y, mean, unit),
    }
    if asked.drops:
        fields["drops"] = number_drops(
            sample, y, found, asked.domains, unit=unit, level=asked.level
        )
        fields["trials"] = column_trials(
            sample, asked.moved, asked.columns, points_of_r2(sample, y), level=asked.level
        )
    return fields


def _sample(x: Floats, y: np.ndarray, d: np.ndarray, classes: bool) -> tuple[Sample, Floats | None]:
    """Return the checked samples, and the standardised labels if they are numbers."""
    if classes:
        return checked(x, y, d, balanced=True), None
    return checked_numbers(x, y, d)


@dataclass(frozen=True)
class _Measure:
    """Measures shifts with the same settings for inputs and for representations."""

    settings: dict[str, Any]
    tick: Callable[[], None]

    def classes(self, sample: Sample) -> tuple[Sample, Shift, Posteriors]:
        """Return the samples with the measured columns, the amounts, and the posteriors."""
        usual = estimator_of(sample, **self.settings)
        few = leading_columns(sample)
        found = posteriors(few, seed=self.settings["seed"], tick=self.tick)
        if isinstance(usual, Counts):
            return few, usual.amounts_of(sample), found
        return few, Combined(found=found, **self.settings).amounts_of(few), found

    def numbers(self, sample: Sample, y: Floats) -> tuple[Shift, NumberPosteriors]:
        """Return the amounts and the posteriors for numeric labels."""
        found = number_posteriors(sample, y, seed=self.settings["seed"], tick=self.tick)
        return NumberCombined(found=found, **self.settings).amounts(sample, y), found

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


def _number_prediction(sample: Sample, y: Floats, found: NumberPosteriors) -> NumberPrediction:
    around = float(sample.weights @ (y - sample.weights @ y) ** 2)

    def explained(predicted: Floats) -> float:
        return 1 - float(sample.weights @ (y - predicted) ** 2) / around

    return NumberPrediction(
        r2=explained(found.predicted),
        r2_knowing_domain=explained(found.home),
        domain=float(sample.weights @ (found.domain.argmax(axis=1) == sample.d)),
    )


def _model_shift(
    model: ModelView, labels: np.ndarray, codes: np.ndarray, classes: bool, measure: _Measure
) -> ModelShift:
    sample, y = _sample(as_table(model.representations), labels, codes, classes)
    shift = measure.classes(sample)[1] if y is None else measure.numbers(sample, y)[0]
    named = {
        field.name: replace(
            getattr(shift, field.name), symbol=getattr(shift, field.name).symbol.replace("X", "R")
        )
        for field in fields(Shift)
    }
    members = [codes == domain for domain in np.unique(codes)]
    right = model.right
    accuracies = () if right is None else tuple(float(right[rows].mean()) for rows in members)
    return ModelShift(
        name=model.name,
        shift=Shift(**named),
        risk_shift=replace(measure.covariate(model.risks, codes), symbol="I(L;D)"),
        risks=tuple(float(model.risks[rows].mean()) for rows in members),
        accuracies=accuracies,
    )


def _refuse_what_shows_nothing(
    codes: np.ndarray, domains: Sequence[str], labels: np.ndarray, classes: Sequence[str]
) -> None:
    if len(domains) < 2:
        raise DataError(
            f"all {len(codes)} samples belong to one domain, {domains[0]!r}; at least two domains"
            " are needed to measure a shift"
        )
    if not classes and not len(varying(as_table(labels))):
        raise DataError(
            f"all {len(codes)} samples have the label {labels[0]:g}; at least two values are needed"
        )
    if len(classes) == 1:
        raise DataError(
            f"all {len(codes)} samples belong to one class, {classes[0]!r}; at least two are needed"
        )
    sizes = np.unique(codes, return_counts=True)[1]
    if sizes.min() < FOLDS:
        raise DataError(
            f"domain {domains[int(sizes.argmin())]!r} has {sizes.min()} samples, fewer than the"
            f" {FOLDS} folds of the cross-validation; leave it out"
        )
