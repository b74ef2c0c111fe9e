"""What the page says, before it is HTML."""

from dataclasses import replace

import pytest
from _internals import (
    LEFT,
    RIGHT,
    SELECTORS,
    TOP,
    Axis,
    SelectionResults,
    averages_table,
    baseline_plot,
    cost_plot,
    critical_difference,
    curves_BOTTOM as BOTTOM,
    dataset_table,
    facts,
    heat_map,
    hparams_table,
    learning_curves,
    other_selections,
    output_shift_table,
    page_values,
    rank_plot,
    render_Source as Source,
    reporting_comparable as comparable,
    sentence,
    settings_table,
    summary_lead as lead,
    summary_title as title,
    sweep_tables,
)


def test_the_lead_has_the_p_value_of_the_tables(made):
    # In all 6 pairs IDM is ahead, by 10 to 30 points: 2 of 2⁶ assignments of signs are as extreme.
    outcomes = made.grid({"erm": [(0.2, 0.5, 0.4)] * 2, "idm": [(0.3, 0.7, 0.7)] * 2}, trials=3)
    (results,) = made.chosen(outcomes)
    found = lead(results)
    assert (found.first, found.second, found.pairs) == ("idm", "erm", 6)
    assert found.points == pytest.approx(20)
    assert found.p_value == 2 / 2**6
    text = sentence(results, "erm")
    assert "IDM is the more accurate of 2 algorithms (56.7% on average over 2 test domains" in text
    assert "20.0 points above ERM; the difference is hardly chance (p = 0.031, sign-flip" in text
    assert text.endswith("test over 6 pairs of test domain and trial).")


def test_a_difference_of_pairs_the_other_way_is_no_proof_of_the_lead(made):
    """IDM leads by the mean over datasets, ERM in most pairs: p is small, but of the opposite."""
    outcomes = [
        made.run(name, at, value, dataset=dataset, domains=domains)
        for dataset, domains, values in (
            ("few", ("a", "b"), {"erm": 0.5, "idm": 0.53}),
            ("many", tuple("abcdefghijklmnop"), {"erm": 0.52, "idm": 0.5}),
        )
        for name, value in values.items()
        for at in range(len(domains))
    ]
    (results,) = made.chosen(outcomes)
    found = lead(results)
    assert (found.first, found.points) == ("idm", pytest.approx(0.5))
    # 2 differences of +3 and 16 of -2 points sum to -26.
    assert found.p_value < 0.01
    text = sentence(results, "erm")
    assert "hardly chance" not in text
    assert "0.5 points above ERM; but over 18 pairs of test domain and trial ERM is ahead" in text


def test_trials_that_agree_do_not_make_a_difference_significant(made):
    """The same in both trials, so its deviation over trials is 0.0; but domains disagree."""
    outcomes = made.grid(
        {"erm": [(0.5, 0.5)] * 3, "idm": [(0.9, 0.9), (0.3, 0.3), (0.4, 0.4)]}, trials=2
    )
    (results,) = made.chosen(outcomes)
    assert lead(results).p_value > 0.5
    text = sentence(results, "erm")
    assert "exceeds" not in text
    assert "the difference may be chance (p = 0." in text


def test_the_sentence_is_honest_about_chance_ties_and_few_pairs(made):
    values = {"erm": [(0.5, 0.3)] * 3, "idm": [(0.4, 0.42)] * 3, "irm": [(0.1, 0.1)] * 3}
    text = sentence(made.chosen(made.grid(values, trials=2))[0], "erm")
    assert "the difference may be chance (p = " in text
    assert text.endswith("the two cannot be told apart.")
    text = sentence(made.chosen(made.grid({"erm": [0.5, 0.5], "idm": [0.75, 0.25]}))[0], "erm")
    assert "ERM and IDM are equally accurate (50.0%" in text
    three = made.grid({"erm": [0.5], "idm": [0.75], "irm": [0.625]})
    text = sentence(made.chosen(three)[0], "erm")
    assert "12.5 points above IRM and 25.0 above ERM; 1 pair of test domain and trial is" in text
    two = made.grid({"erm": [0.5, 0.5], "idm": [0.75, 0.75]})
    text = sentence(made.chosen(two)[0], "erm")
    assert "2 pairs of test domain and trial are too few to tell that from chance" in text


def test_of_one_algorithm_the_worst_and_the_best_domain_are_told(made):
    outcomes = made.grid({"idm": [0.5, 0.75, 0.25]}, standalone=True)
    text = sentence(made.chosen(outcomes)[0], "erm")
    # At the last step: 12.5 points below the best.
    assert "IDM is right on 37.5% of the samples" in text
    assert "from 12.5% (west) to 62.5% (north)" in text
    assert title(made.chosen(outcomes)[0], outcomes) == "IDM on wards"


def test_without_numbers_the_page_says_so_and_shows_what_there_is(made):
    outcomes = [made.run("erm", 0, 0.5, status="running")]
    page = page_values(outcomes, made.chosen(outcomes), "erm", Source())
    assert page.sentence.startswith("There is no accuracy on a test domain yet")
    assert [section.name for section in page.sections] == ["provenance"]


def test_tables_are_sorted_marked_and_say_where_numbers_come_from(made):
    outcomes = made.grid({"erm": [0.5, 0.75], "idm": [0.875, 0.5], "irm": [0.25, 0.75]})
    (results,) = made.chosen(outcomes)
    table = dataset_table(results, results.datasets[0])
    assert [row.label for row in table.rows] == ["IDM", "ERM", "IRM"]
    assert [c.title for c in table.columns] == ["east", "north", "Avg"]
    assert table.by == 2
    marks = {row.label: [cell.mark for cell in row.cells] for row in table.rows}
    assert marks == {
        "IDM": ["best", "", "best"], "ERM": ["second", "best", "second"], "IRM": ["", "best", ""],
    }  # fmt: skip
    first = table.rows[0].cells[0]
    assert (first.text, first.error, first.runs) == ("87.5", "", "0,87.5,0,101")
    assert "training-domain validation; 1 trial (seed 0), 1 hyper-parameter draw" in table.notes[0]
    assert "no error bars" in table.notes[0]


def test_error_bars_are_of_several_trials_only(made):
    outcomes = made.grid({"erm": [(0.25, 0.25, 0.75, 0.75)]}, trials=4)
    (results,) = made.chosen(outcomes)
    (row,) = dataset_table(results, results.datasets[0]).rows
    assert (row.cells[0].text, row.cells[0].error) == ("50.0", "12.5")
    assert "population standard deviation" in dataset_table(results, results.datasets[0]).notes[0]


def test_a_mean_over_fewer_test_domains_is_not_given(made):
    outcomes = [
        o
        for o in made.grid({"erm": [0.5, 0.75], "idm": [0.875, 0.5]})
        if o.key[1:3] != ("idm", (1,))
    ]
    (results,) = made.chosen(outcomes)
    rows = {row.label: row for row in dataset_table(results, results.datasets[0]).rows}
    assert [cell.text for cell in rows["IDM"].cells] == ["87.5", "–", "–"]
    averages = {row.label: row for row in averages_table(results).rows}
    assert averages["ERM"].cells[-1].text == "62.5"
    assert "IDM" not in averages
    assert lead(results) is None
    said = [line for fact in facts(outcomes, [results], [], "") for line in fact.lines]
    assert any("missing: IDM on wards, test domain north" in line for line in said)


def test_runs_by_themselves_are_asked_for_no_domain_that_nobody_held_out(made):
    outcomes = [made.run("erm", 1, 0.5, standalone=True), made.run("idm", 1, 0.75, standalone=True)]
    (results,) = made.chosen(outcomes)
    table = dataset_table(results, results.datasets[0])
    assert [column.title for column in table.columns] == ["north"]
    assert all(not cell.missing for d in results.datasets for cell in d.cells.values())
    assert table.rows[0].cells[0].runs == "0,62.5,,200"
    assert "runs of seed 0" in table.notes[0]


def test_the_heat_map_shows_differences_of_printed_numbers(made):
    outcomes = made.grid({"idm": [0.5, 0.8], "erm": [0.5004, 0.6], "irm": [0.4, 0.594]})
    (results,) = made.chosen(outcomes)
    found = heat_map(results, "erm")
    rows = {label: [(cell.text, cell.level) for cell in cells] for label, cells in found.rows}
    assert list(rows) == ["ERM", "IDM", "IRM"]
    assert rows["ERM"] == [("50.0", None), ("60.0", None)]
    assert rows["IDM"] == [("0.0", 0), ("+20.0", 4)]
    assert rows["IRM"] == [("−10.0", -3), ("−0.6", -1)]
    assert found.groups == [("wards", ["east", "north"])]
    against_mean = dict(heat_map(results, None).rows)
    assert [cell.text for cell in against_mean["IDM"]] == ["+3.3", "+13.5"]
    assert heat_map(made.chosen(made.grid({"erm": [0.5, 0.6]}))[0], "erm") is None


def test_ranks_over_datasets_with_ties_and_what_lacks_one(made):
    accuracies = {"erm": 0.5, "idm": 0.75, "irm": 0.5, "sd": 0.25}
    outcomes = [
        made.run(name, 0, value if dataset == "a" else 1 - value, dataset=dataset)
        for dataset in ("a", "b")
        for name, value in accuracies.items()
        if (dataset, name) != ("b", "sd")
    ]
    plot = rank_plot(made.chosen(outcomes)[0])
    numbers = {row.label: [cell.text for cell in row.cells] for row in plot.table.rows}
    # a: idm 1, erm and irm 2; b: erm and irm 1, idm 3.
    assert numbers == {
        "ERM": ["1.5", "1.5", "2"],
        "IRM": ["1.5", "1.5", "2"],
        "IDM": ["2.0", "2", "3"],
    }
    assert any("1 algorithm without a number" in note for note in plot.table.notes)
    idm = plot.marks[-1]
    (dot,) = [mark for mark in idm if mark.kind == "dot"]
    assert dot.start == 2.0  # between rank 1 and rank 3
    (span,) = [mark for mark in idm if mark.kind == "span"]
    assert (span.start, span.end) == (1, 3)
    assert plot.placed[-1][0].end == 100.0
    assert any(f"{critical_difference(3, 2):.1f} apart" in note for note in plot.table.notes)


def test_nemenyis_test_is_of_ranks_that_equal_numbers_share_by_their_mean(made):
    """Four are alike and IRM is last, on all of seven datasets.

    The smallest ranks are 1 and 5, four apart, and the critical difference is 2.31.  But the four
    share the ranks 1 to 4, and the mean of those, 2.5, is 2.5 from 5.  On five datasets the
    difference is 2.73: nothing is told apart.
    """
    values = dict.fromkeys(("erm", "idm", "sd", "fish"), 0.75) | {"irm": 0.5}

    def shaded(datasets):
        outcomes = [
            made.run(name, 0, value, dataset=dataset)
            for dataset in datasets
            for name, value in values.items()
        ]
        plot = rank_plot(made.chosen(outcomes)[0])
        rows = zip(plot.table.rows, plot.marks, strict=True)
        like_first = [r.label for r, marks in rows if any(m.kind == "band" for m in marks)]
        return sorted(like_first), " ".join(plot.table.notes)

    assert shaded("abcdefg")[0] == ["ERM", "Fish", "IDM", "SD"]
    five, said = shaded("abcde")
    assert five == ["ERM", "Fish", "IDM", "IRM", "SD"]
    assert "2.7 apart" in said
    assert "equal ones share the mean of their ranks" in said


def test_one_dataset_is_ranked_by_test_domain_and_without_a_test(made):
    outcomes = made.grid({"erm": [0.5, 0.6], "idm": [0.4, 0.7], "irm": [0.3, 0.3]})
    plot = rank_plot(made.chosen(outcomes)[0])
    assert "2 test domains" in plot.table.title
    assert not any("Nemenyi" in note for note in plot.table.notes)
    assert rank_plot(made.chosen(made.grid({"erm": [0.5, 0.6], "idm": [0.4, 0.7]}))[0]) is None


def test_differences_to_the_baseline(made):
    outcomes = made.grid({"erm": [0.5, 0.5, 0.5], "idm": [0.6, 0.7, 0.8]})
    plot = baseline_plot(made.chosen(outcomes)[0], "erm")
    (row,) = plot.table.rows
    assert [cell.text for cell in row.cells] == ["+20.0", "0.250", "0.250", "3"]
    assert "With 3 pairs, p cannot be below 0.25." in plot.table.notes[0]
    assert baseline_plot(made.chosen(outcomes)[0], "coral") is None


def test_a_p_value_is_small_but_never_zero(made):
    """Ahead in all of 20 pairs: two of 2²⁰ assignments, of which 100,000 are drawn."""
    trials = 10
    outcomes = made.grid({"erm": [(0.5,) * trials] * 2, "idm": [(0.6,) * trials] * 2}, trials)
    (results,) = made.chosen(outcomes)
    (row,) = baseline_plot(results, "erm").table.rows
    *_, printed = sweep_tables(results)
    for cells in (row.cells, printed.rows[0].cells):
        assert [cell.text for cell in cells[1:]] == ["1e-05", "1e-05", "20"]
        assert cells[1].value == pytest.approx(1e-5)


def test_costs_are_ratios_of_runs_in_the_same_place(made):
    outcomes = [
        *(made.run("erm", at, 0.5, seconds=seconds) for at, seconds in enumerate((2.0, 4.0, 8.0))),
        *(made.run("idm", at, 0.5, seconds=seconds) for at, seconds in enumerate((3.0, 8.0, 32.0))),
    ]
    plot = cost_plot(outcomes, "erm")
    rows = {row.label: [cell.text for cell in row.cells] for row in plot.table.rows}
    # Ratios 1.5, 2 and 4; 8 seconds over 200 steps.
    assert rows == {"ERM": ["1.00", "20.00", "3"], "IDM": ["2.00", "40.00", "3"]}
    alone = cost_plot([o for o in outcomes if o.algorithm == "idm"], "erm")
    assert [cell.text for cell in alone.table.rows[0].cells] == ["40.00", "3"]
    assert (
        cost_plot([replace(o, config={}, seconds=None, environment={}) for o in outcomes], "erm")
        is None
    )


def test_curves_go_where_the_numbers_are_and_mark_the_reported_step(made):
    (panels,) = learning_curves(made.chosen(made.grid({"erm": [0.5, 0.75]}))[0], "erm")
    assert [panel.title for panel in panels.panels] == ["ERM · east", "ERM · north"]
    first = panels.panels[0]
    assert [line.kind for line in first.lines] == ["validation", "test"]
    # Steps 0 to 200 and accuracies from 25 to 75 fill the frame.
    assert [tick.label for tick in panels.y_ticks] == ["20", "40", "60", "80"]
    y = [BOTTOM - (BOTTOM - TOP) * (value - 20) / 60 for value in (25, 50, 37.5)]
    x = [LEFT + (RIGHT - LEFT) * step / 200 for step in (1, 101, 200)]
    points = [tuple(map(float, part.split())) for part in first.lines[1].path[1:].split("L")]
    assert points == [pytest.approx(point, abs=0.06) for point in zip(x, y, strict=True)]
    assert first.selected == pytest.approx((x[1], y[1]), abs=0.06)
    assert "test domain from 25.0% to 37.5%" in first.words
    assert "reported at step 101" in first.words
    cells = [cell.text for cell in panels.table.rows[0].cells]
    assert cells == ["east", "0", "101", "75.0", "50.0", "37.5"]


def test_of_many_algorithms_the_best_and_the_baseline_are_drawn(made):
    names = ["irm", "sd", "fish", "coral", "erm", "idm"]
    outcomes = made.grid({name: [0.9 - position / 10] for position, name in enumerate(names)})
    (panels,) = learning_curves(made.chosen(outcomes)[0], "erm")
    assert [panel.title.split()[0] for panel in panels.panels] == ["IRM", "SD", "Fish", "ERM"]
    assert any("of 6 algorithms" in note for note in panels.notes)


def test_runs_evaluated_once_have_no_curves(made):
    outcomes = [replace(o, evaluations=o.evaluations[-1:]) for o in made.grid({"erm": [0.5]})]
    assert learning_curves(made.chosen(outcomes)[0], "erm") == []


def test_the_shift_of_outputs_is_that_of_the_reported_step(made):
    assert output_shift_table(made.chosen(made.grid({"erm": [0.5]}))[0]) is None
    (row,) = output_shift_table(made.chosen(made.grid({"erm": [0.5]}, shift=made.shift))[0]).rows
    texts = [cell.text for cell in row.cells]
    assert texts == ["0.20", "0.005", "found", "0.01"]
    table = output_shift_table(made.chosen(made.grid({"erm": [0.5, 0.6]}, shift=made.shift))[0])
    assert [row.cells[0].text for row in table.rows] == ["east", "north"]


def test_provenance_counts_runs_and_names_versions_failures_and_settings(made):
    failed = replace(
        made.run("idm", 1, 0.5, status="failed"),
        config={},
        seconds=None,
        environment={},
        failure="out of memory",
        evaluations=(),
    )
    outcomes = [made.run("erm", 0, 0.5), made.run("idm", 0, 0.5, status="diverged"), failed]
    said = {fact.name: list(fact.lines) for fact in facts(outcomes, [], ["runs"], "shiftproof x")}
    assert said["Runs"] == ["1 finished", "1 diverged: never selected (IDM 1)", "1 failed (IDM 1)"]
    assert said["Made with"] == ["shiftproof 9.8.7, torch 2, machine toaster (2 runs)"]
    assert said["Failed"] == [
        "IDM on wards without north, hyper-parameter seed 0, trial 0: out of memory"
    ]
    assert said["This page"][0] == "shiftproof x"
    table = settings_table(outcomes)
    names = [column.title for column in table.columns]
    assert dict(zip(names, (cell.text for cell in table.rows[0].cells), strict=True)) == {
        "Network": "mlp", "Steps": "200", "Held-out share": "0.2", "Device": "cpu",
    }  # fmt: skip
    assert hparams_table(outcomes) is None


def test_other_selections_to_choose_are_told_beside(made):
    outcomes = made.grid({"erm": [0.5], "idm": [0.75]})
    assert len(other_selections(made.chosen(outcomes, "training-domain", "oracle"))) == 1


def test_sections_without_values_are_absent(made):
    bare = [
        replace(o, config={}, seconds=None, environment={}, evaluations=o.evaluations[-1:])
        for o in made.grid({"erm": [0.5]})
    ]
    page = page_values(bare, made.chosen(bare), "erm", Source())
    assert [section.name for section in page.sections] == ["accuracy", "provenance"]
    whole = made.grid({"erm": [0.5, 0.6], "idm": [0.6, 0.5], "irm": [0.4, 0.4]}, shift=made.shift)
    page = page_values(whole, made.chosen(whole), "erm", Source())
    assert [section.name for section in page.sections] == [
        "accuracy", "domains", "baseline", "ranks", "curves", "cost", "shift", "provenance",
    ]  # fmt: skip


@pytest.mark.parametrize("values", [[0, 1001], [3, 3], [-71.4, 5.2], [0, 0.0003]])
def test_an_axis_holds_its_values_and_writes_numbers_within(values):
    axis = Axis.over(values)
    assert axis.low <= min(values) <= max(values) <= axis.high
    assert all(0 <= axis.percent(tick) <= 100 for tick in axis.ticks)
    assert len(axis.ticks) >= 2


def test_an_algorithm_without_an_average_comes_last_even_after_a_negative_one(monkeypatch):
    averages = {"erm": -250.0, "idm": None, "sd": 40.0}  # of R², in percent
    monkeypatch.setattr(comparable, "overall", lambda results, name: averages[name])
    results = SelectionResults(SELECTORS.get("oracle")(), tuple(averages), ())
    assert comparable.best_first(results) == ["sd", "erm", "idm"]
