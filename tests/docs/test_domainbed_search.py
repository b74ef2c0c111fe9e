"""The tables of results/domainbed-search.md are what its records say."""

from __future__ import annotations

from tools.search_page import PAGE, draws_table, finished_runs, rewritten, selected_table


def test_the_page_has_the_tables_of_its_records():
    page = PAGE.read_text("utf-8")
    assert rewritten(page) == page
    for table in (draws_table, selected_table):
        assert table(finished_runs()) in page


def test_a_table_follows_the_records():
    """Without the run that the oracle takes, it takes another."""
    runs = finished_runs()
    best = max(
        (run for run in runs if run.algorithm == "idm"),
        key=lambda run: run.evaluations[-1].outside[2],
    )
    line = next(row for row in selected_table(runs).splitlines() if "oracle, IDM" in row)
    assert line.split("|")[2].strip() == str(best.hparams_seed)
    assert line not in selected_table([run for run in runs if run is not best])
