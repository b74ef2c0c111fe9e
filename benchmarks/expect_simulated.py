"""`python -m benchmarks.expect_simulated`: coverage of prediction intervals where τ is known.

Domains have true figures N(0, τ²), and estimates with sampling errors of 0.1 to 0.3, those of the
log odds of an accuracy from 50 to 400 samples.  An interval of 95% should hold the true figure of
one more domain 95 times in 100.  The result is kept in a file that `benchmarks.expect` puts on its
page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shiftproof.inference.meta_analysis import predictive, prior, t_interval

DOMAINS = (3, 5, 10, 20)
TAUS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
ERRORS = (0.1, 0.3)
OVER_PRIOR = "over the prior"
LEVEL = 0.95

Interval = Callable[[np.ndarray, np.ndarray], tuple[float, float]]
# Intervals that the median width is of: finding one takes longer than asking if it holds a value.
WIDTHS = 200


class Method(NamedTuple):
    """An interval for the next domain, and whether it holds a figure."""

    interval: Interval
    holds: Callable[[np.ndarray, np.ndarray, float], bool]


def _within(estimates: np.ndarray, variances: np.ndarray, value: float) -> bool:
    """Whether a figure is inside the interval of `expect`: neither tail is below 2.5%."""
    return abs(predictive(estimates, variances).below(value) - 0.5) <= LEVEL / 2


def _within_usual(estimates: np.ndarray, variances: np.ndarray, value: float) -> bool:
    low, high = t_interval(estimates, variances, LEVEL)
    return low <= value <= high


METHODS = {
    "expect": Method(lambda y, v: predictive(y, v).interval(LEVEL), _within),
    "t interval": Method(lambda y, v: t_interval(y, v, LEVEL), _within_usual),
}


def simulate(
    method: Method, k: int, tau: float | None, repetitions: int, seed: int
) -> tuple[float, float]:
    """Return coverage and median width; without a τ, each repetition draws one from the prior."""
    rng = np.random.default_rng([seed, k])
    inside, widths = 0, []
    for repetition in range(repetitions):
        variances = rng.uniform(*ERRORS, k) ** 2
        own = tau
        if own is None:
            taus, weights = prior(variances)
            own = float(rng.choice(taus, p=weights))
        estimates = own * rng.standard_normal(k) + np.sqrt(variances) * rng.standard_normal(k)
        inside += method.holds(estimates, variances, own * rng.standard_normal())
        if repetition < WIDTHS:
            low, high = method.interval(estimates, variances)
            widths.append(high - low)
    return inside / repetitions, float(np.median(widths))


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expect_simulated")
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results/expect-simulated.json"))
    asked = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    for name, method in METHODS.items():
        for k in DOMAINS:
            for place, tau in enumerate((*TAUS, None)):
                coverage, width = simulate(method, k, tau, asked.repetitions, place)
                found.append(
                    {
                        "method": name,
                        "domains": k,
                        "tau": tau,
                        "coverage": coverage,
                        "width": width,
                    }
                )
                print(name, k, tau, coverage, file=sys.stderr, flush=True)
    asked.out.write_text(
        json.dumps({"repetitions": asked.repetitions, "cells": found}, indent=1) + "\n"
    )
    return 0


def section(stored: dict[str, Any]) -> list[str]:
    """Return the simulation as lines of Markdown."""
    columns = [*(f"τ = {tau:g}" for tau in TAUS), OVER_PRIOR]
    error = 100 * float(np.sqrt(LEVEL * (1 - LEVEL) / stored["repetitions"]))
    lines = [
        "## Simulated domains",
        "",
        f"True figures are N(0, τ²), and sampling errors {ERRORS[0]:g} to {ERRORS[1]:g}, on the"
        f" scale of log odds. Each cell has the coverage of {stored['repetitions']} intervals of"
        f" {LEVEL:.0%} (standard error about {error:.1f} points) and their median width. *Over the"
        " prior*, τ is drawn anew for each: there the coverage of `expect` must be 95%, as the"
        " intervals average over the same prior. No interval can cover 95% for every τ: few domains"
        " cannot show that τ is far below the sampling error, so intervals are wide there, and"
        " cover more. Where τ is 0, all that differs is the estimate of the mean.",
    ]
    cells = {(each["method"], each["domains"], each["tau"]): each for each in stored["cells"]}
    for method in METHODS:
        lines += ["", f"Coverage and width, {method}:", ""]
        lines += [f"| domains | {' | '.join(columns)} |", "|---:|" + "---:|" * len(columns)]
        for k in DOMAINS:
            row = [cells[method, k, tau] for tau in (*TAUS, None)]
            said = " | ".join(f"{each['coverage']:.1%}, {each['width']:.2f}" for each in row)
            lines.append(f"| {k} | {said} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
