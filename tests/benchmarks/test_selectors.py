"""The page of the benchmark of selectors is what its records say."""

from __future__ import annotations

import gzip
import json
from statistics import fmean

from benchmarks.selectors import RECORDED, RESULTS, of_recorded_runs, page


def test_the_page_has_the_rows_of_its_records():
    lines = (RESULTS / "selectors.jsonl").read_text("utf-8").splitlines()
    records = [*map(json.loads, lines), *of_recorded_runs()]
    assert page(records) == (RESULTS / "selectors.md").read_text("utf-8")


def test_a_mean_is_rounded_once():
    """10.7498%, which is 10.75% if each of the three accuracies is rounded first."""
    chosen = []
    with gzip.open(RECORDED, "rt") as file:
        for run in map(json.loads, file):
            if run["test_domains"] == ["10%"]:
                scored = [
                    (fmean(e["accuracy"][f"{name}/out"] for name in ("90%", "80%")), -e["step"], e)
                    for e in run["records"]
                ]
                chosen.append(max(scored, key=lambda each: each[:2])[2]["accuracy"]["10%/in"])
    text = (RESULTS / "selectors.md").read_text("utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| Colored MNIST, 10%"))
    assert row.split("|")[4].strip() == f"{100 * fmean(chosen):.1f}" == "10.7"
