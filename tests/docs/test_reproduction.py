"""The tables of results/reproduction.md are what the records under results/ say."""

from __future__ import annotations

from statistics import fmean, stdev

import pytest
from _internals import read_sweep

from tools import reproduced_tables as tables
from tools.marked_sections import MARKED, renewed

PAGE = tables.PAGE.read_text("utf-8")
NAMES = [match["name"] for match in MARKED.finditer(PAGE)]


def test_the_page_has_every_table_once():
    assert sorted(NAMES) == sorted([*tables.SOURCES, "running-time"])


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_that_of_the_records(name):
    (shown,) = [m[0] for m in MARKED.finditer(PAGE) if m["name"] == name]
    assert shown == f"<!-- {name} -->\n\n{tables.table_named(name).strip()}\n\n<!-- /{name} -->"


def test_a_changed_number_would_be_noticed():
    name = "table1"
    wrong = PAGE.replace("86.4 ± 0.2", "86.5 ± 0.2")
    assert wrong != PAGE
    assert renewed(wrong, tables.table_named) == PAGE
    assert tables.table_named(name).strip() in PAGE


@pytest.mark.parametrize("strength", [1000.0, 100.0])
def test_representation_alignment_costs_what_the_page_says(strength):
    """The difference with and without it, of each trial's average over the domains held out."""
    by_trial = {}
    for run in read_sweep(tables.RESULTS / "alignment-lite.jsonl.gz"):
        hparams = run.config["hparams"]
        if hparams["gradient_weight"] == strength:
            sign = 1 if hparams["match_representations"] else -1
            accuracy = 100 * run.evaluations[-1].inside[run.test_domains[0]]
            by_trial.setdefault(run.trial_seed, []).append(sign * accuracy / 3)
    assert {len(runs) for runs in by_trial.values()} == {6}
    differences = [sum(runs) for runs in by_trial.values()]
    error = stdev(differences) / len(differences) ** 0.5
    said = f"{fmean(differences):+.1f} ± {error:.1f}".replace("-", "−")
    for page in (tables.ROOT / "docs" / "reproduction.md", tables.RESULTS / "ablations-lite.md"):
        assert said in " ".join(page.read_text("utf-8").split())
