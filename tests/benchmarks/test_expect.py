"""The benchmark of `expect`: who is inside, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.expect import main, outcomes
from shiftproof.inference.meta_analysis import predictive


def table(figures: list[float], variance: float = 0.01) -> dict[str, Any]:
    domains = [
        {
            "domain": str(i), "samples": 100, "covered": 0.9, "size": 1.5, "accuracy": None,
            "auroc": [float(1 / (1 + np.exp(-figure))), figure, variance],
        }
        for i, figure in enumerate(figures)
    ]  # fmt: skip
    return {"data": "made", "algorithm": "linear", "domains": domains}


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
    assert "| made, linear | 4 | 100.0%" in page
    assert "| made, linear | 4 | 90.0% | 90.0% | 1.50 |" in page
