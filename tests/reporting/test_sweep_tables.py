"""What the tables say, before they have a format."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from _internals import (
    SELECTORS,
    Evaluation,
    MissingRun,
    Run,
    aggregate,
    describe_missing,
    marks,
    number_ranges,
    sweep_tables,
)

PAPER = Path(__file__).parents[3] / "shared/paper/idm-paper.tex"
COMMANDS = {r"\textbf": "best", r"\underline": "second", r"\textcolor{gray}": "worse", "": ""}


def papers_table_2():
    """Return the cells of the paper's Table 2 as {algorithm: [(mark, number)]}."""
    text = PAPER.read_text().split(r"\label{tbl:domainbed_oracle}")[1].split(r"\bottomrule")[0]
    rows = {}
    for line in text.splitlines():
        name, *cells = line.removesuffix(r"\\").split("&")
        found = [
            re.match(r"(\\textbf|\\underline|\\textcolor\{gray\})?\{?([\d.]+)", cell.strip())
            for cell in cells
        ]
        if len(cells) == 11 and all(found):
            rows[name.strip()] = [(COMMANDS[m[1] or ""], float(m[2])) for m in found]
    return rows


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not here")
def test_marks_are_those_of_the_paper():
    rows = papers_table_2()
    assert len(rows) == 22
    names = list(rows)
    different = []
    for column in range(11):
        better = 1 if column < 8 else -1
        values = [rows[name][column][1] for name in names]
        ours = marks(values, better, names.index("ERM"))
        printed = [rows[name][column][0] for name in names]
        different += [
            (name, column, mark, theirs)
            for name, mark, theirs in zip(names, ours, printed, strict=True)
            if mark != theirs
        ]
    assert different == []


def test_marks_by_hand():
    assert marks([1, 3, 2, 0], 1, 0) == ["", "best", "second", "worse"]
    assert marks([1, 3, 2, 0], -1, 0) == ["second", "worse", "worse", "best"]
    assert marks([3, None, 2, 2, 1], 1, None) == ["best", "", "second", "second", ""]
    assert marks([3, 3, 2], 1, 2) == ["best", "best", ""]  # with two best ones, none is second
    assert marks([5.0], 1, 0) == [""]
    assert marks([3, 2], 0, 0) == ["", ""]
    assert marks([None, 1, 2], 1, 0) == ["", "second", "best"]


def test_runs_with_something_in_common_are_named_in_one_line():
    def missing(algorithms, tests, seeds, trials, reason="missing"):
        return [
            MissingRun("vlcs", a, t, s, trial, reason)
            for a in algorithms
            for t in tests
            for s in seeds
            for trial in trials
        ]

    everything = missing(["erm", "own"], [("C",), ("C", "L")], range(20), range(3))
    assert describe_missing(everything) == [
        "missing: ERM, own on VLCS, test domains C, C+L, hyper-parameter seeds 0-19, trials 0-2"
    ]
    some = missing(["erm"], [("C",)], [3], [0, 1]) + missing(["erm"], [("C",)], [4, 6], [2])
    assert describe_missing(some + some) == [
        "missing: ERM on VLCS, test domain C, hyper-parameter seed 3, trials 0-1 and"
        " hyper-parameter seeds 4, 6, trial 2"
    ]
    mixed = missing(["erm"], [("C",)], [0], [0]) + missing(["irm"], [("C",)], [0], [0], "diverged")
    assert [line.split(":")[0] for line in describe_missing(mixed)] == ["missing", "diverged"]
    assert describe_missing([]) == []
    assert number_ranges([7]) == "7"
    assert number_ranges([]) == ""


def sweep(accuracies, draws=(0,), trials=(0, 1), dataset="mine"):
    """Runs that end with the given accuracies {algorithm: [of each test domain]}; 0.1 less in
    trial 1, and the same in every draw."""
    names = ("u", "v")
    return [
        Run(
            dataset, algorithm, names, (position,), draw, trial, "finished",
            (Evaluation(1, *[tuple(a - trial / 10 for a in of_domains)] * 2),),
        )
        for algorithm, of_domains in accuracies.items()
        for position in range(2)
        for draw in draws
        for trial in trials
    ]  # fmt: skip


def shown(runs, selector="oracle", **options):
    results = aggregate(runs, SELECTORS.get(selector)())
    return {table.title.split(",")[0]: table for table in sweep_tables(results, **options)}


def row_of(table, label):
    (row,) = [row for row in table.rows if row.label == label]
    return row.cells


def entries(table, label):
    return [f"{c.text} {c.error} {c.sign}".strip() for c in row_of(table, label)]


def test_a_whole_sweep():
    found = shown(sweep({"idm": (0.9, 0.8), "erm": (0.7, 0.6)}, draws=(0, 1)))
    assert list(found) == ["Dataset: mine", "Averages", "Ranking", "Against ERM"]
    dataset = found["Dataset: mine"]
    assert [column.title for column in dataset.columns] == ["u", "v", "Avg"]
    assert [row.label for row in dataset.rows] == ["ERM", "IDM"]
    # 0.9 and 0.8: mean 0.85; deviation 0.05, over √2 trials.
    assert entries(dataset, "IDM") == ["85.0 3.5", "75.0 3.5", "80.0"]
    assert dataset.notes == ()
    assert entries(found["Averages"], "IDM") == ["80.0 3.5", "80.0"]
    assert entries(found["Ranking"], "IDM") == ["1.0", "1", "1"]
    assert entries(found["Against ERM"], "IDM") == ["+20.0", "0.1250", "0.1250", "4"]
    for table in found.values():
        for part in ("test-in", "selector oracle", "2 trials (seeds 0-1)", "population standard"):
            assert part in table.caption
        assert "2 hyper-parameter draws (seeds 0-1)" in table.caption


def test_missing_runs_show_in_the_cell_and_are_named_below():
    runs = sweep({"erm": (0.7, 0.6), "idm": (0.9, 0.8)}, draws=(0, 1))
    gone = {("erm", 0, 1, 1), ("idm", 1, 0, 0), ("idm", 1, 1, 0)}
    kept = [
        r for r in runs
        if (r.algorithm, r.test_domains[0], r.hparams_seed, r.trial_seed) not in gone
    ]  # fmt: skip
    found = shown(kept)
    dataset = found["Dataset: mine"]
    assert entries(dataset, "ERM") == ["65.0 3.5 *", "55.0 3.5", "60.0  *"]
    assert entries(dataset, "IDM") == ["85.0 3.5", "70.0  (1/2)", "77.5  *"]
    assert dataset.notes[2:] == (
        "missing: ERM on mine, test domain u, hyper-parameter seed 1, trial 1",
        "missing: IDM on mine, test domain v, hyper-parameter seeds 0-1, trial 0",
    )
    assert dataset.notes[0].startswith("(n/m) n of m trials")
    assert dataset.notes[1].startswith("* over the runs there are")
    # As the original tool: trial 0 is averaged over the one test domain it has.
    assert entries(found["Averages"], "IDM")[0] == "82.5 5.3 *"
    assert row_of(found["Against ERM"], "IDM")[3].text == "3"


def test_a_test_domain_without_any_number_is_a_dash_and_is_not_ranked():
    runs = [
        r for r in sweep({"erm": (0.7, 0.6), "idm": (0.9, 0.8), "sd": (0.5, 0.5)})
        if (r.algorithm, r.test_domains) != ("idm", (1,))
    ]  # fmt: skip
    found = shown(runs)
    assert entries(found["Dataset: mine"], "IDM")[1:] == ["–", "–"]
    assert entries(found["Ranking"], "IDM") == ["–"] * 3
    assert entries(found["Ranking"], "ERM") == ["1.0", "1", "1"]
    assert found["Ranking"].notes


def test_diverged_runs_are_named_without_a_sign():
    runs = sweep({"erm": (0.7, 0.6)}, draws=(0, 1))
    runs[2] = replace(runs[2], status="diverged")
    dataset = shown(runs)["Dataset: mine"]
    assert {cell.sign for cell in row_of(dataset, "ERM")} == {""}
    (note,) = dataset.notes
    assert note == "diverged: ERM on mine, test domain u, hyper-parameter seed 1, trial 0"


def test_a_selector_with_nothing_to_select_from_says_what_it_lacks():
    found = shown(sweep({"erm": (0.7, 0.6), "idm": (0.9, 0.8)}), "leave-one-domain-out")
    assert list(found) == ["Dataset: mine"]
    assert found["Dataset: mine"].rows == ()
    assert found["Dataset: mine"].notes == (
        "no number: no run can be selected from",
        "missing: ERM, IDM on mine, test domain u+v, hyper-parameter seed 0, trials 0-1",
    )


def test_equal_as_printed_is_equal_in_rank():
    found = shown(sweep({"erm": (0.70001, 0.7), "idm": (0.7, 0.7)}))
    assert [row.cells[0].text for row in found["Ranking"].rows] == ["1.0", "1.0"]


def test_another_baseline_or_none():
    runs = sweep({"erm": (0.7, 0.6), "idm": (0.9, 0.8)})
    found = shown(runs, baseline="idm")
    assert [row.label for row in found["Against IDM"].rows] == ["ERM"]
    # ERM is worse than IDM, but as the second of two it is marked as that.
    three = sweep({"erm": (0.7, 0.6), "idm": (0.9, 0.8), "sd": (0.5, 0.5)})
    of_averages = shown(three, baseline="erm")["Averages"]
    assert [row.cells[0].mark for row in of_averages.rows] == ["second", "best", "worse"]
    of_averages = shown(three, baseline="sd")["Averages"]
    assert [row.cells[0].mark for row in of_averages.rows] == ["second", "best", ""]
    assert list(shown(runs, baseline="absent")) == ["Dataset: mine", "Averages", "Ranking"]
