"""`python -m benchmarks.expect_simulated`: coverage of prediction intervals where τ is known.

Each repetition draws k domains and one more.  An interval of 95% from the k should hold the true
figure of the last 95 times in 100, and its estimate too, with the sampling error of that added.
The estimates come from one of these:

- `normal`: the model of the meta-analysis.  Figures are N(0, τ²), and a domain of n samples has the
  sampling variance of the log odds of an accuracy of 80%, 1 / (0.16 n).
- `accuracy`: log odds are N(logit 0.8, τ²), and right answers are binomial.
- `auroc`: the log odds of the AUROC are N(logit 0.8, τ²), and scores are normal in each class.
- `heavy tails` and `skewed`: as `normal`, but figures of domains have Student's t distribution with
  4 degrees of freedom, or the exponential one, with standard deviation τ.

The result is kept in a file that `benchmarks.expect` puts on its page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from benchmarks.expect_methods import (
    EXPECT,
    Sets,
    expect_mixture,
    held_by_all,
    mixture_held,
    widths,
)
from shiftproof.metrics import METRICS, Outputs

DOMAINS = (3, 5, 10, 20)
TAUS = (0.1, 0.2, 0.5, 1.0)
# The range of samples per domain; sizes are log-uniform within it.
SIZES = ((50, 50), (100, 100), (400, 400), (2000, 2000), (50, 400), (50, 2000))
FEWER_SIZES = ((100, 100), (400, 400), (50, 400))
AUROC_SIZES = ((100, 100), (400, 400))
LOWEST, HIGHEST, FROM = 0.93, 0.97, 5
ACCURACY = 0.8
POSITIVE = 0.4  # share of the first class, for the AUROC
POOL = 2000  # simulated domains to draw sets from, for the AUROC
AT_ONCE = 50  # sets per batch, to limit memory
WIDTHS = 4  # batches of sets for the median width

# Returns figures, estimates and variances [sets, k + 1] for a τ and numbers of samples.
Process = Callable[[np.random.Generator, float, np.ndarray], tuple[np.ndarray, ...]]


def _normal(standard: Callable[[np.random.Generator, Any], np.ndarray]) -> Process:
    def drawn(rng: np.random.Generator, tau: float, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
        variances = 1 / (ACCURACY * (1 - ACCURACY) * sizes)
        figures = tau * standard(rng, sizes.shape)
        noise = np.sqrt(variances) * rng.standard_normal(sizes.shape)
        return figures, figures + noise, variances

    return drawn


def _accuracy(rng: np.random.Generator, tau: float, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    figures = np.log(ACCURACY / (1 - ACCURACY)) + tau * rng.standard_normal(sizes.shape)
    return figures, *share_log_odds(rng.binomial(sizes, expit(figures)), sizes)


def share_log_odds(right: np.ndarray, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log odds of accuracies and their variances, as `estimate` does, for arrays."""
    share = (right + 0.5) / (samples + 1)
    return logit(share), 1 / (share * (1 - share) * (samples + 1))


def pooled_auroc(tau: float, samples: int, domains: int, rng: np.random.Generator) -> np.ndarray:
    """Return figure, estimate and variance [domains, 3] of the AUROC of simulated domains.

    The scores of the two classes are N(d, 1) and N(0, 1), so the AUROC is Φ(d / √2).
    """
    labels = (np.arange(samples) >= POSITIVE * samples).astype(int)
    found = []
    for z in rng.standard_normal(domains):
        figure = np.log(ACCURACY / (1 - ACCURACY)) + tau * z
        apart = np.sqrt(2) * float(ndtri(expit(figure)))
        second = expit(apart * labels + rng.standard_normal(samples))
        chances = np.stack([1 - second, second], axis=1)
        own = METRICS.get("auroc").estimate(Outputs(chances, labels))
        assert own is not None
        found.append((figure, own.additive, own.variance))
    return np.array(found)


@cache
def _pool(tau: float, samples: int) -> np.ndarray:
    return pooled_auroc(tau, samples, POOL, np.random.default_rng([7, samples]))


def _auroc(rng: np.random.Generator, tau: float, sizes: np.ndarray) -> tuple[np.ndarray, ...]:
    (samples,) = np.unique(sizes)
    found = _pool(tau, int(samples))[rng.integers(POOL, size=sizes.shape)]
    return found[..., 0], found[..., 1], found[..., 2]


PROCESSES: dict[str, Process] = {
    "normal": _normal(lambda rng, shape: rng.standard_normal(shape)),
    "accuracy": _accuracy,
    "auroc": _auroc,
    "heavy tails": _normal(lambda rng, shape: rng.standard_t(4, shape) / np.sqrt(2)),
    "skewed": _normal(lambda rng, shape: rng.standard_exponential(shape) - 1),
}
SIZES_OF = {
    "normal": SIZES,
    "accuracy": FEWER_SIZES,
    "auroc": AUROC_SIZES,
    "heavy tails": FEWER_SIZES,
    "skewed": FEWER_SIZES,
}


def draw(
    process: Process, k: int, tau: float, size: tuple[int, int], sets: int, rng: np.random.Generator
) -> Sets:
    """Return sets of k domains and one more."""
    few, many = size
    logarithms = rng.uniform(np.log(few), np.log(many), (sets, k + 1))
    samples = np.rint(np.exp(logarithms)).astype(int)
    figures, estimates, variances = process(rng, tau, samples)
    return Sets(estimates[:, :k], variances[:, :k], figures[:, k], estimates[:, k], variances[:, k])


def simulate(
    name: str, k: int, tau: float, size: tuple[int, int], repetitions: int
) -> list[dict[str, Any]]:
    """Return the coverage of each method in one cell of the simulation."""
    rng = np.random.default_rng([list(PROCESSES).index(name), k, round(1000 * tau), *size])
    inside: dict[str, list[np.ndarray]] = {}
    spans: list[np.ndarray] = []
    for _ in range(repetitions // AT_ONCE):
        sets = draw(PROCESSES[name], k, tau, size, AT_ONCE, rng)
        if name == "normal":
            found = held_by_all(sets)
        else:
            found = {EXPECT: mixture_held(expect_mixture(sets), sets)}
        for method, held in found.items():
            inside.setdefault(method, []).append(np.mean(held, axis=1))
        if len(spans) < WIDTHS:
            spans.append(widths(expect_mixture(sets)))
    width = float(np.median(spans))
    return [
        {
            "process": name, "method": method, "domains": k, "tau": tau, "size": list(size),
            "true": float(np.mean(own, axis=0)[0]), "observed": float(np.mean(own, axis=0)[1]),
            "width": width if method == EXPECT else None,
        }
        for method, own in inside.items()
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulation, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expect_simulated")
    parser.add_argument("--repetitions", type=int, default=4000)
    parser.add_argument("--out", type=Path, default=Path("results/expect-simulated.json"))
    asked = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    for name, sizes in SIZES_OF.items():
        for k in DOMAINS:
            for tau in TAUS:
                for size in sizes:
                    found += simulate(name, k, tau, size, asked.repetitions)
            print(name, k, file=sys.stderr, flush=True)
    lines = ",\n".join(json.dumps(each) for each in found)
    asked.out.write_text(f'{{"repetitions": {asked.repetitions}, "cells": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
