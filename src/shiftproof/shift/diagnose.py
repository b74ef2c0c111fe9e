"""Measure the shifts between domains: which kinds there are, how large they are, and where.

All amounts are mutual information in nats, with all domains equally likely, as in training;
`information.base` defines the five.  Features with few distinct rows are measured by counting; for
others, `posteriors` describes the classifiers behind the amounts, and why these are lower bounds.
Labels without classes are numbers; `labels` has what differs between the two kinds.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.data.base import Progress, silent
from shiftproof.information import Shift, estimator_for
from shiftproof.shift.diagnosis import Diagnosis, ModelShift, ModelView
from shiftproof.shift.drops import column_trials, drops_of
from shiftproof.shift.labels import Labels, labels_of
from shiftproof.shift.localize import match, moved_features, pairs_of, stratified
from shiftproof.shift.posteriors import FOLDS
from shiftproof.statistics.sample import as_table, varying

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
    check_most(most, len(domains))
    table, labels, codes = as_table(x), np.asarray(y), np.asarray(d)
    names = tuple(features or (f"feature {i}" for i in range(table.shape[1])))
    rows = stratified(codes, most, seed)
    left_out = len(codes) - len(rows)
    table, labels, codes = table[rows], labels[rows], codes[rows]
    there = tuple(domains[position] for position in np.unique(codes))
    labelled = tuple(classes[position] for position in np.unique(labels)) if classes else ()
    _refuse_what_shows_nothing(codes, there, labels, labelled)
    measured = labels_of(table, labels, codes, labelled)
    if measured.sample.x.shape[1] == 0:
        raise DataError(f"all {len(names)} features are constant; there is nothing to measure")

    steps, done = FOLDS * (2 if model else 1) + 2, itertools.count()

    def tick() -> None:
        progress("measuring shifts", next(done), steps)

    tick()
    settings = {"seed": seed, "balanced": True, "level": level, "permutations": permutations}
    matched = match(table, codes, seed)
    moving = moved_features(matched, names, there)
    columns = [names[column] for column in varying(table)]
    moved = [columns.index(feature.name) for feature in moving if feature.p_value <= 1 - level]
    tick()
    measured.fit(seed, tick)
    shift = measured.shift(**settings)
    held_out: dict[str, Any] = {}
    if drops:
        held_out["drops"] = drops_of(measured, there, level)
        held_out["trials"] = column_trials(measured, moved, columns, level)
    tick()
    model_shift = None
    if model is not None:
        model = model.take(rows)
        of_model = labels_of(as_table(model.representations), labels, codes, labelled)
        of_model.fit(seed, tick)
        model_shift = _model_shift(model, of_model, codes, settings)
    return Diagnosis(
        domains=there,
        classes=labelled,
        left_out=left_out,
        level=level,
        shift=shift,
        domain_entropy=float(np.log(len(there))),
        pairs=pairs_of(measured, matched, there),
        features=moving,
        model=model_shift,
        **measured.measured(),
        **held_out,
    )


def _model_shift(
    model: ModelView, labels: Labels, codes: np.ndarray, settings: dict[str, Any]
) -> ModelShift:
    shift = labels.shift(**settings)
    renamed = (replace(part, symbol=part.symbol.replace("X", "R")) for part in shift)
    risks = estimator_for(model.risks, codes, **settings).covariate(model.risks, codes)
    members = [codes == domain for domain in np.unique(codes)]
    right = model.right
    accuracies = () if right is None else tuple(float(right[rows].mean()) for rows in members)
    return ModelShift(
        name=model.name,
        shift=Shift(*renamed),
        risk_shift=replace(risks, symbol="I(L;D)"),
        risks=tuple(float(model.risks[rows].mean()) for rows in members),
        accuracies=accuracies,
    )


def _refuse_what_shows_nothing(
    codes: np.ndarray, domains: Sequence[str], labels: np.ndarray, classes: Sequence[str]
) -> None:
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
