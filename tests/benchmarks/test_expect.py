"""The benchmark of `expect`: who is inside, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _internals import predictive

from benchmarks.expect import main, outcomes, t_interval
from benchmarks.expect_methods import EXPECT, expect_mixture, held_by_all, widths
from benchmarks.expect_simulated import (
    DOMAINS,
    PROCESSES,
    SIZES_OF,
    TAUS,
    draw,
    pooled_auroc,
    share_log_odds,
)
from benchmarks.expect_simulated_page import section
from shiftproof.metrics import METRICS, Outputs


def table(figures: list[float], variance: float = 0.01) -> dict[str, Any]:
    domains = [
        {
            "domain": str(i), "samples": 100, "covered": 0.9, "size": 1.5, "accuracy": None,
            "auroc": [float(1 / (1 + np.exp(-figure))), figure, variance],
        }
        for i, figure in enumerate(figures)
    ]  # fmt: skip
    return {
        "data": "made", "algorithm": "linear", "classes": 2, "nested": False, "domains": domains,
    }  # fmt: skip


def test_the_last_domain_is_judged_by_the_others() -> None:
    figures = [1.0, 1.2, 0.9, 1.1, 1.05, -3.0]
    found = outcomes(table(figures), "auroc")
    assert [each.inside for each in found["prediction interval"]] == [True] * 5 + [False]
    low, high = predictive(np.array(figures[:5]), np.full(5, 0.01)).interval(0.95, 0.01)
    width = 1 / (1 + np.exp(-high)) - 1 / (1 + np.exp(-low))
    assert found["prediction interval"][5].width == pytest.approx(width)
    assert found["of the true score"][0].width < found["prediction interval"][0].width
    shares = 1 / (1 + np.exp(-np.array(figures[:5])))
    naive = 2 * 1.96 * shares.std(ddof=1) / np.sqrt(5)
    assert found["mean ± 1.96 s.e."][5].width == pytest.approx(naive, rel=1e-4)


def test_the_page_is_written_from_what_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "expect.jsonl"
    made = table([1.0, 1.2, 0.9, 1.1])
    for own in made["domains"]:
        own["accuracy"] = own["auroc"]
    kept.write_text(json.dumps(made) + "\n")
    assert main(["--out", str(kept)]) == 0
    page = (tmp_path / "expect.md").read_text()
    assert "| made, linear † | 4 | 100.0%" in page
    assert "| made, linear † | 4 | 2 | no | 90.0% | 90.0% | 1.50 |" in page
    assert "Simulated" not in page


def test_the_other_domains_are_scored_without_the_next_one() -> None:
    """Where pairs were held out, their scores count, not those of models that saw the next one."""
    made = table([1.0, 1.2, 0.9, 1.1])
    nested = [[0.5, figure, 0.01] for figure in (2.0, 2.2, 2.1)]
    made["domains"][0]["others"] = {str(i): {"auroc": own} for i, own in enumerate(nested)}
    found = outcomes(made, "auroc")["prediction interval"]
    low, high = predictive(np.array([2.0, 2.2, 2.1]), np.full(3, 0.01)).interval(0.95, 0.01)
    assert found[0].width == pytest.approx(1 / (1 + np.exp(-high)) - 1 / (1 + np.exp(-low)))
    assert found[1].width != pytest.approx(found[0].width)


def test_every_simulated_figure_and_estimate_has_its_spread() -> None:
    """Variances: τ² of figures, and τ² plus the sampling variance of estimates."""
    rng = np.random.default_rng(0)
    for name in ("normal", "accuracy", "heavy tails", "skewed"):
        sets = draw(PROCESSES[name], 20, 0.5, (400, 400), 2000, rng)
        assert sets.figure.std() == pytest.approx(0.5, rel=0.1)
        error = np.sqrt(np.mean((sets.estimate - sets.figure) ** 2 / sets.variance))
        assert error == pytest.approx(1, abs=0.06)
        assert sets.estimates.shape == sets.variances.shape == (2000, 20)


def test_the_simulated_estimates_are_those_of_expect() -> None:
    """An accuracy of 7 in 10 by `estimate`; an AUROC of normal scores around its true value."""
    labels = np.array([0] * 7 + [1] * 3)
    own = METRICS.get("accuracy").estimate(Outputs(np.tile([0.9, 0.1], (10, 1)), labels))
    assert own is not None
    assert share_log_odds(np.array(7), np.array(10)) == pytest.approx((own.additive, own.variance))
    rng = np.random.default_rng(0)
    _, estimates, variances = pooled_auroc(0.0, 400, 200, rng).T
    assert 1 / (1 + np.exp(-estimates.mean())) == pytest.approx(0.8, abs=0.01)
    assert np.sqrt(variances.mean()) == pytest.approx(estimates.std(), rel=0.15)


def test_methods_in_simulations_are_those_of_the_library() -> None:
    """On the same sets: the mixture of `expect`, and the t interval with the REML τ²."""
    rng = np.random.default_rng(1)
    sets = draw(PROCESSES["normal"], 5, 0.5, (50, 400), 40, rng)
    found = held_by_all(sets)
    for i in range(40):
        given = sets.estimates[i], sets.variances[i]
        low, high = predictive(*given).interval()
        assert found[EXPECT].figure[i] == (low <= sets.figure[i] <= high)
        low, high = predictive(*given).interval(0.95, sets.variance[i])
        assert found[EXPECT].estimate[i] == (low <= sets.estimate[i] <= high)
    half = [np.ptp(t_interval(*given)) / 2 for given in zip(*sets[:2], strict=True)]
    centre = [np.mean(t_interval(*given)) for given in zip(*sets[:2], strict=True)]
    clear = np.abs(np.abs(sets.figure - centre) / half - 1) > 0.02  # not for a step of the grid
    held = np.abs(sets.figure - centre) <= half
    assert (found["REML, t(k − 1)"].figure == held)[clear].all()
    spans = [np.ptp(predictive(*given).interval()) for given in zip(*sets[:2], strict=True)]
    np.testing.assert_allclose(widths(expect_mixture(sets)), spans, rtol=2e-3)


def test_the_page_has_the_simulation(tmp_path: Path) -> None:
    """Of a made simulation, where one cell of `expect` is too high and one too low."""
    cells = [
        {
            "process": process, "method": method, "domains": k, "tau": tau, "size": list(size),
            "true": 0.95, "observed": 0.951, "width": 1.0,
        }
        for process, sizes in SIZES_OF.items()
        for method in (EXPECT, "other")
        for k in DOMAINS
        for tau in TAUS
        for size in sizes
    ]  # fmt: skip
    where = {(each["process"], each["method"], each["domains"], each["tau"], *each["size"]): each
             for each in cells}  # fmt: skip
    where["normal", EXPECT, 5, 0.1, 50, 50]["true"] = 0.99
    where["normal", EXPECT, 20, 0.2, 50, 50]["true"] = 0.92
    page = "\n".join(section({"repetitions": 4000, "cells": cells}))
    assert "70 of 72 cells are from 93% to 97%; 1 are below, and 1 above" in page
    assert "All that are above have τ at most 0.28 s" in page
    assert "Below are: 92.0% (k = 20, τ = 0.2, 50 to 50 samples)" in page
    assert f"| {EXPECT} | 92.0 | 99.0 | 70 | 95.1 | 95.1 | 72 |" in page
    assert "| 5 | 50 | 0.35 | 99.0, 95.1 (1.00) |" in page
    assert "| 10 | 50 to 400 | 0.35 to 0.12 | 95.0, 95.1 |" in page
