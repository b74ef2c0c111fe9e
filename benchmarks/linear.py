"""The whole path of a linear probe for every held-out domain, against scikit-learn's solver."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np

from benchmarks.figure import Figure
from shiftproof.learners.linear import PATH
from shiftproof.learners.logistic import logistic_path

# PACS as frozen features: rows, features, classes, domains.
ROWS, FEATURES, CLASSES, DOMAINS = 10_000, 1_280, 7, 4
# Both solvers stop at a gradient below TOLERANCE: at the weakest penalty, 1e-5, a coarser
# tolerance leaves coefficients that differ by more than CLOSE.
CLOSE, TOLERANCE = 1e-4, 2e-9


def linear() -> Iterator[Figure]:
    """Solve 20 penalties for 4 held-out domains with both solvers; compare times and results."""
    x, y, domain = _features()
    weights = np.stack([domain != held for held in range(DOMAINS)]).astype(float)
    started = time.perf_counter()
    ours = logistic_path(x, y, CLASSES, weights, PATH, tolerance=TOLERANCE)
    took = time.perf_counter() - started
    started = time.perf_counter()
    theirs = _scikit_learn(x, y, domain)
    took_there = time.perf_counter() - started
    apart = np.abs(_centred(ours.coefficients) - _centred(theirs)).max()
    yield Figure(
        "linear",
        "scikit-learn's / our time of 20 penalties for 4 held-out domains, 10,000 × 1,280,"
        " 7 classes",
        took_there / took,
        "≥",
        1.0,
        {"seconds": {"ours": round(took, 1), "scikit-learn": round(took_there, 1)}},
    )
    yield Figure("linear-apart", "largest difference of a coefficient", apart, "≤", CLOSE, {})


def _features() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features like a network's: correlated, with decreasing variance, then scaled."""
    rng = np.random.default_rng(0)
    spectrum = 1 / np.sqrt(np.arange(1, FEATURES + 1))
    mixing = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0] * spectrum[:, None]
    y = rng.integers(0, CLASSES, ROWS)
    centres = rng.normal(size=(CLASSES, FEATURES)) * 0.3
    x = np.maximum((rng.normal(size=(ROWS, FEATURES)) + centres[y]) @ mixing, -0.02)
    return (x - x.mean(axis=0)) / x.std(axis=0), y, rng.integers(0, DOMAINS, ROWS)


def _scikit_learn(x: np.ndarray, y: np.ndarray, domain: np.ndarray) -> np.ndarray:
    """Return coefficients [penalties, domains, classes, features], each path with warm starts."""
    from sklearn.linear_model import LogisticRegression

    found = np.empty((len(PATH), DOMAINS, CLASSES, x.shape[1]))
    for held in range(DOMAINS):
        rows = domain != held
        model = LogisticRegression(warm_start=True, tol=TOLERANCE, max_iter=10_000)
        for place in np.argsort(PATH)[::-1]:
            model.C = 1 / (PATH[place] * rows.sum())
            with warnings.catch_warnings(action="ignore"):
                found[place, held] = model.fit(x[rows], y[rows]).coef_
    return found


def _centred(coefficients: np.ndarray) -> np.ndarray:
    """Return coefficients centred over classes, since softmax ignores a common shift."""
    centred: np.ndarray = coefficients - coefficients.mean(axis=2, keepdims=True)
    return centred
