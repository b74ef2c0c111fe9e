"""The pages of `best` against single learners are what their records say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.regression import REGRESSION
from benchmarks.tables import MOST_HELD_OUT, TABLES, page, read

RESULTS = Path(__file__).parents[2] / "results"
PAGES = {
    "tables": (TABLES, MOST_HELD_OUT),
    "tables-wisdm": (replace(TABLES, domain_by_domain=True), 36),
    "regression": (REGRESSION, MOST_HELD_OUT),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_its_records(name: str) -> None:
    study, most = PAGES[name]
    records = read(RESULTS / f"{name}.jsonl")
    shown = (RESULTS / f"{name}.md").read_text("utf-8")
    assert page(records, study, most) == shown
    assert page(records[1:], study, most) != shown


def test_unequal_numbers_of_seeds_and_all_commits_are_told() -> None:
    run = {"domain": "a", "accuracy": 0.5, "auroc": 0.5, "log_loss": 0.7}
    outcomes = [
        {"data": "toy", "algorithm": algorithm, "seed": seed, "seconds": 1.0, "runs": [run],
         "members": {}, "commit": f"c{seed}", "machine": {"threads": 2}}
        for algorithm in ("linear", "boosting", "forest", "best")
        for seed in range(2 if algorithm == "best" else 3)
    ]  # fmt: skip
    made = page(outcomes)
    assert "| toy, accuracy | 2 to 3 |" in made
    assert "Commits: c0 (4 records), c1 (4 records), c2 (3 records)." in made
