"""Check before anything runs whether the draws of a sweep can be combined."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.core.errors import InvalidValue
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.sweeps.combine.methods import ENSEMBLE, GREEDY, SOUPS, UNIFORM
from shiftproof.sweeps.jobs import Variant
from shiftproof.sweeps.presets import Preset
from shiftproof.training.averaging import AVERAGES


def check_combination(
    methods: Sequence[str],
    variants: Sequence[Variant],
    preset: Preset,
    *,
    n_hparams: int,
    shared_start: bool,
) -> None:
    """Raise, before anything runs, if the draws could not be combined afterwards."""
    if not methods:
        return
    if n_hparams < 2:
        raise InvalidValue(
            f"`combine` needs at least 2 draws, but `n_hparams={n_hparams}` makes one; set"
            " `n_hparams` to at least 2"
        )
    soups = [name for name in methods if name in SOUPS]
    exact = [variant.algorithm for variant in variants if ALGORITHMS.get(variant.algorithm).exact]
    if soups and exact:
        raise InvalidValue(
            f"`combine={soups[0]!r}` averages weights, but {exact[0]} has none; use"
            f" `combine={ENSEMBLE!r}`, or run {exact[0]} in a sweep of its own"
        )
    if soups and not shared_start:
        raise InvalidValue(
            f"`combine={soups[0]!r}` averages weights, so all draws must start from the same"
            " weights; set `shared_start=True`, with another `out` if the sweep has begun"
        )
    if GREEDY in methods and preset.holdout == 0:
        raise InvalidValue(
            f"`combine={GREEDY!r}` needs held-out samples, but the preset {preset.name} holds none"
            f" out; use {ENSEMBLE} or {UNIFORM}"
        )


def check_retraining(preset: Preset, average: str) -> None:
    """Raise, before anything runs, if retraining would add no samples or needs held-out ones."""
    if preset.holdout == 0:
        raise InvalidValue(
            f"the preset {preset.name} trains on all samples already; leave out `retrain=True`"
        )
    if average in AVERAGES and AVERAGES[average].judges:
        free = [name for name, kind in AVERAGES.items() if not kind.judges]
        raise InvalidValue(
            f"`average={average!r}` needs held-out samples, but `retrain=True` holds none out; use"
            f" {' or '.join(free)}"
        )
