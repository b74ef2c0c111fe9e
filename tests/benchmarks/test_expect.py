"""The benchmark of `expect`: who is inside, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.expect import main, outcomes
from benchmarks.expect_simulated import Method, simulate
from shiftproof.inference.meta_analysis import predictive


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


def test_simulated_coverage_of_a_known_interval() -> None:
    """An interval that holds everything, or nothing; and one of a known coverage."""
    never = Method(lambda y, v: (0.0, 1.0), lambda y, v, value: False)
    assert simulate(never, 3, 0.5, 20, 0) == (0.0, 1.0)
    normal = Method(lambda y, v: (-1.0, 1.0), lambda y, v, value: abs(value) < 0.5)
    coverage, width = simulate(normal, 3, 0.5, 4000, 0)
    assert coverage == pytest.approx(0.6827, abs=0.025)
    assert width == 2
