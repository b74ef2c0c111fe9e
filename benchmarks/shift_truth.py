"""Estimates of shift where the truth is known, and tests where there is none.

    python benchmarks/shift_truth.py [--seeds 3] [--null-sets 100] > shift_truth.json

Colored MNIST with an ideal shape feature: the true amounts by enumeration, and for every seed the
estimates of 23,333 fresh samples a domain with their 95% intervals, by counts and by cross-fitted
classifiers.  The tests of "no shift" are then tried on as many data sets without any, at the level
of 5%.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from typing import Any

import numpy as np

from shiftproof.information import Counts, CrossFitted, Estimator, Shift, mutual_information

AGREEMENTS = {"two training domains": (0.9, 0.8), "all three": (0.9, 0.8, 0.1)}
NOISE = 0.25
PER_DOMAIN = 23_333


def truth(agreement: tuple[float, ...]) -> dict[str, float]:
    """Return the amounts in nats, by enumeration over domain, shape, colour and label."""
    table = np.zeros((len(agreement), 2, 2, 2))
    for domain, shape, colour, label in np.ndindex(*table.shape):
        agree = agreement[domain]
        table[domain, shape, colour, label] = (
            (1 - NOISE if shape == label else NOISE)
            * (agree if colour == label else 1 - agree)
            / (2 * len(agreement))
        )
    # Axes: domain, shape, colour, label.
    return {
        "covariate": mutual_information(table, [1, 2], [0]),
        "concept": mutual_information(table, [3], [0], [1, 2]),
        "joint": mutual_information(table, [1, 2, 3], [0]),
        "label": mutual_information(table, [3], [0]),
    }


def samples(agreement: tuple[float, ...], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw shape and colour [n, 2], labels [n] and domains [n]."""
    rng = np.random.default_rng(seed)
    d = np.repeat(np.arange(len(agreement)), PER_DOMAIN)
    shape = rng.integers(0, 2, len(d))
    label = shape ^ (rng.random(len(d)) < NOISE)
    colour = label ^ (rng.random(len(d)) >= np.asarray(agreement)[d])
    return np.stack([shape, colour], axis=1), label.astype(int), d


def found(shift: Shift, true: dict[str, float]) -> dict[str, Any]:
    """Return each estimated amount and its true value."""
    figures = {}
    for name, value in true.items():
        estimate = getattr(shift, name)
        low, high = estimate.interval
        figures[name] = {
            "true": round(value, 6),
            "estimate": round(estimate.value, 6),
            "interval": [round(low, 6), round(high, 6)],
            "inside": bool(low <= value <= high),
            "p_value": estimate.p_value,
        }
    return figures


def rejections(estimator: type[Estimator], sets: int) -> dict[str, int]:
    """Count rejections at 5% on data sets whose domains do not differ."""
    rejected = dict.fromkeys(("covariate", "label", "concept", "joint", "within_label"), 0)
    for seed in range(sets):
        rng = np.random.default_rng([seed, 1])
        d = np.repeat([0, 1, 2], 100)
        shape = rng.integers(0, 2, len(d))
        y = shape ^ (rng.random(len(d)) < NOISE)
        x = shape[:, None] + rng.normal(size=(len(d), 2)) * (estimator is CrossFitted)
        shift = estimator(seed=seed, permutations=99).measure(x, y.astype(int), d)
        for name in rejected:
            p_value = getattr(shift, name).p_value
            rejected[name] += p_value is not None and p_value <= 0.05
    return rejected


def main() -> None:
    """Run the measurements, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--null-sets", type=int, default=100)
    arguments = parser.parse_args()
    began = time.perf_counter()
    coloured = [
        {
            "domains": name,
            "seed": seed,
            "method": kind.__name__,
            **found(
                kind(seed=0, balanced=True, permutations=99).measure(*samples(agreement, seed)),
                truth(agreement),
            ),
        }
        for name, agreement in AGREEMENTS.items()
        for kind in (Counts, CrossFitted)
        for seed in range(arguments.seeds)
    ]
    figures = {
        "command": " ".join(["python benchmarks/shift_truth.py", *sys.argv[1:]]),
        "colored_mnist": coloured,
        "all_inside": all(each[name]["inside"] for each in coloured for name in truth((0.9, 0.8))),
        "rejected_of_null_sets": {
            kind.__name__: rejections(kind, arguments.null_sets) for kind in (Counts, CrossFitted)
        },
        "null_sets": arguments.null_sets,
        "seconds": round(time.perf_counter() - began),
        "machine": platform.machine(),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
