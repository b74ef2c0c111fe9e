"""`python -m benchmarks.regression_coverage`: what is said of numbers, where the truth is known.

Three parts, all with seeds that were not looked at while the methods were made:

1. shifts: `diagnose` on the families of `benchmarks.regression_families`;
2. `expect`: prediction intervals of 95% for MAE, RMSE and R² of one more domain, where the spread τ
   between domains is known on the additive scale;
3. intervals of `predict`: the share of labels of a new domain inside intervals of 90%.

The result is a file of JSON, and the page `results/regression-coverage.md`
(`benchmarks.regression_coverage_page`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeCV

from benchmarks.expect_methods import Sets, expect_mixture, mixture_held, widths
from benchmarks.regression_families import KINDS, family
from shiftproof.inference.conformal import HalfWidths, half_width
from shiftproof.metrics import METRICS
from shiftproof.metrics.outputs import NumberOutputs
from shiftproof.shift.advise import advise
from shiftproof.shift.diagnose import diagnose

# Seeds from here on were not used before.
FRESH = 7000
DOMAINS, TAUS, SIZES = (3, 5, 10, 20), (0.05, 0.1, 0.2, 0.5), (50, 200, 1000)
POOL = 400  # simulated domains to draw sets from
LEVEL = 0.9
INTERVAL_DOMAINS = (4, 9, 15, 30)
SHOWN = ("mae", "rmse", "r2")


def shifts(seeds: int) -> list[dict[str, Any]]:
    """Return the true and estimated amounts of each family."""
    found = []
    for seed in range(FRESH, FRESH + seeds):
        for kind in KINDS:
            made, rows = family(kind, seed)
            x, y, d = made.draw(rows, np.random.default_rng([seed, 99]))
            names = [f"site {i}" for i in range(made.domains)]
            began = time.process_time()
            measured = diagnose(x, y, d, domains=names, classes=(), seed=0, drops=False)
            seconds = time.process_time() - began
            advice = advise(measured)
            states = {each.shift: each.state for each in advice.findings}
            truth = made.truth()
            found.append(
                {
                    "kind": kind, "seed": seed, "domains": made.domains, "rows": rows,
                    "columns": x.shape[1], "curved": bool(made.curve), "tails": made.tails,
                    "seconds": round(seconds, 1), "states": states, "said": list(advice.kinds),
                    "most": float(np.log(made.domains)),
                    "amounts": {
                        name: [truth[name], each.value, *each.interval]
                        for name in truth
                        for each in [getattr(measured.shift, name)]
                    },
                }
            )  # fmt: skip
            print(kind, seed, file=sys.stderr, flush=True)
    return found


def _errors(shape: str, rng: np.random.Generator, n: int) -> np.ndarray:
    """Return errors with variance 1."""
    if shape == "normal":
        return rng.standard_normal(n)
    if shape == "heavy tails":
        return np.asarray(rng.standard_t(5, n) / (5 / 3) ** 0.5)
    return np.asarray(rng.standard_exponential(n) - 1)


# The mean of |e| for errors of variance 1.
MEAN_ABSOLUTE = {
    "normal": (2 / np.pi) ** 0.5,
    "heavy tails": 0.7351051938957227,  # of t₅ / √(5/3)
    "skewed": 2 / np.e,
}


def pooled(metric: str, shape: str, tau: float, n: int) -> np.ndarray:
    """Return figure, estimate and variance [POOL, 3] of simulated domains, on the additive scale.

    Labels are N(0, 1) and predictions y + s e with log s ~ N(log ½, τ²), so R² is 1 − s² and RMSE
    is s.
    """
    rng = np.random.default_rng([SHOWN.index(metric), len(shape), round(1000 * tau), n])
    found = []
    for z in rng.standard_normal(POOL):
        # The additive scale of R² is −log(1 − R²) = −2 log s.
        s = 0.5 * np.exp((tau / 2 if metric == "r2" else tau) * z)
        y = rng.standard_normal(n)
        own = METRICS.get(metric).estimate(NumberOutputs(y + s * _errors(shape, rng, n), y))
        assert own is not None
        truth = {"mae": np.log(s * MEAN_ABSOLUTE[shape]), "rmse": np.log(s), "r2": -2 * np.log(s)}
        found.append((truth[metric], own.additive, own.variance))
    return np.array(found)


def expectations(sets: int) -> list[dict[str, Any]]:
    """Return how often intervals contain the figure, and the estimate, of one more domain."""
    found = []
    for metric in SHOWN:
        for shape in MEAN_ABSOLUTE:
            for tau in TAUS:
                for n in SIZES:
                    pool = pooled(metric, shape, tau, n)
                    rng = np.random.default_rng([FRESH, n, round(1000 * tau)])
                    for k in DOMAINS:
                        drawn = pool[rng.integers(POOL, size=(sets, k + 1))]
                        own, last = drawn[:, :k], drawn[:, k]
                        case = Sets(own[..., 1], own[..., 2], last[:, 0], last[:, 1], last[:, 2])
                        mixture = expect_mixture(case)
                        held = mixture_held(mixture, case)
                        found.append(
                            {
                                "metric": metric, "errors": shape, "tau": tau, "rows": n,
                                "domains": k, "true": float(held.figure.mean()),
                                "observed": float(held.estimate.mean()),
                                "width": float(np.median(widths(mixture))),
                            }
                        )  # fmt: skip
        print(metric, file=sys.stderr, flush=True)
    return found


def _known(rng: np.random.Generator, k: int) -> tuple[list[NumberOutputs], NumberOutputs]:
    """Return errors of k domains and one more, with random means and spreads and no model."""
    found = []
    for _ in range(k + 1):
        n = int(np.exp(rng.uniform(np.log(30), np.log(300))))
        errors = 0.5 * rng.standard_normal() + np.exp(0.4 * rng.standard_normal()) * (
            rng.standard_normal(n)
        )
        found.append(NumberOutputs(np.zeros(n), errors, np.arange(n)))
    return found[:k], found[k]


def _fitted(rng: np.random.Generator, k: int) -> tuple[list[NumberOutputs], NumberOutputs]:
    """Return outputs of ridge models without each domain, and of one on all k for a new domain."""
    data = []
    for _ in range(k + 1):
        n = int(np.exp(rng.uniform(np.log(30), np.log(300))))
        x = rng.standard_normal(5) / 2 + rng.standard_normal((n, 5))
        slope = np.ones(5) / 2 + 0.3 * rng.standard_normal(5)
        data.append((x, x @ slope + 0.3 * rng.standard_normal() + rng.standard_normal(n)))

    def answers(train: list[tuple[np.ndarray, np.ndarray]], test: int) -> NumberOutputs:
        x, y = (np.concatenate([own[place] for own in train]) for place in (0, 1))
        model = RidgeCV(alphas=np.geomspace(1e-2, 1e4, 7)).fit(x, y)
        there, labels = data[test]
        return NumberOutputs(model.predict(there), labels, np.arange(len(labels)))

    held_out = [answers([data[j] for j in range(k) if j != t], t) for t in range(k)]
    return held_out, answers(data[:k], k)


CASES: dict[str, Callable[[np.random.Generator, int], tuple[list[NumberOutputs], NumberOutputs]]]
CASES = {"errors drawn": _known, "ridge, refitted": _fitted}


def intervals(sets: int) -> list[dict[str, Any]]:
    """Return the coverage of labels of a new domain, by runs and by a stored model."""
    found = []
    for name, case in CASES.items():
        for k in INTERVAL_DOMAINS:
            rng = np.random.default_rng([FRESH, k, len(name)])
            shares, stored, width = [], [], []
            promised = False
            for _ in range(sets):
                held_out, new = case(rng, k)
                q, promised = half_width(held_out, LEVEL)
                errors = np.abs(new.labels - new.predicted)
                shares.append(float((errors <= q).mean()))
                width.append(q)
                kept = HalfWidths.of([np.abs(own.labels - own.predicted) for own in held_out])
                if kept is not None:
                    stored.append(float((errors <= kept.half_width(LEVEL).half).mean()))
            found.append(
                {
                    "case": name, "domains": k, "promised": promised, "sets": sets,
                    "covered": float(np.mean(shares)),
                    "error": float(np.std(shares) / sets**0.5),
                    "worst_tenth": float(np.quantile(shares, 0.1)),
                    "stored": float(np.mean(stored)) if stored else None,
                    "half_width": float(np.median(width)),
                }
            )  # fmt: skip
        print(name, file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurements, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression_coverage")
    parser.add_argument("--families", type=int, default=5, help="seeds of each kind of shift")
    parser.add_argument("--sets", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results/regression-coverage.json"))
    asked = parser.parse_args(arguments)
    found = {
        "families": asked.families,
        "sets": asked.sets,
        "intervals": intervals(min(asked.sets, 1000)),
        "expect": expectations(asked.sets),
        "shifts": shifts(asked.families),
    }
    parts = ",\n".join(
        f'"{name}": '
        + ("[\n" + ",\n".join(map(json.dumps, own)) + "\n]" if isinstance(own, list) else str(own))
        for name, own in found.items()
    )
    asked.out.write_text(f"{{{parts}}}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
