"""Families that an earlier diagnosis read wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.families import Family, reaching


def _plain(name: str, domains: int, columns: int, rows: int, tails: str, rule: str) -> Family:
    weights = np.zeros(columns)
    weights[0] = 2.0
    return Family(
        name=name,
        kind="reported",
        seed=0,
        rows=rows,
        tails=tails,
        rule=rule,
        means=np.zeros((domains, columns)),
        roots=np.tile(np.eye(columns), (domains, 1, 1)),
        weights=weights,
        twist=np.zeros((domains, 2)),
    )


def rotated() -> Family:
    """Return a Gaussian of 20 columns whose axes rotate between domains: covariate 0.715."""
    f = _plain("20-D rotated Gaussian", 3, 20, 3000, "normal", "linear")
    rng = np.random.default_rng(0)
    stretch = np.diag(np.geomspace(0.4, 2.5, 20))
    turns = np.stack([np.linalg.qr(rng.normal(size=(20, 20)))[0] for _ in range(3)])

    def at(t: float) -> Family:
        scaled = np.diag(np.diag(stretch) ** t)
        return replace(f, roots=np.stack([turn @ scaled for turn in turns]))

    return reaching("covariate", "domain_entropy", 0.715 / np.log(3), at, 1.0)


def gain(drift: float = 0.0) -> Family:
    """Return 40 columns whose common gain differs, and a label that depends on their norm."""
    name = "40-D gain, radial label" + (", small mean shift" if drift else "")
    f = _plain(name, 2, 40, 3000, "normal", "radial")
    f = replace(f, means=np.array([[0.0], [drift]]) * np.eye(1, 40))

    def at(t: float) -> Family:
        return replace(f, roots=np.exp([-t, t])[:, None, None] * np.eye(40))

    return reaching("covariate", "domain_entropy", 0.113 / np.log(2), at, 1.0)


def heavy() -> Family:
    """Return Student's t with 3 degrees of freedom in 20 columns, with moving means: 0.109."""
    f = _plain("heavy tails", 2, 20, 2000, "t3", "linear")
    toward = np.stack([-np.ones(20), np.ones(20)]) / np.sqrt(20)
    return reaching(
        "covariate", "domain_entropy", 0.109 / np.log(2), lambda t: replace(f, means=t * toward), 9
    )


def drifting_gain() -> Family:
    """Return `gain` with an additional small shift of one mean."""
    return gain(0.3)


REPORTED: tuple[Callable[[], Family], ...] = (rotated, gain, drifting_gain, heavy)
