"""Tables under the DomainBed protocol: the paper's rows are our variants, and cells their runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from _internals import STUDIES, Choice, InvalidValue, UnknownName, paper_table

from shiftproof import ALGORITHMS

COLOURS = ("90%", "80%", "10%")
PROTOCOL = [name for name in STUDIES if name not in ("table1", "figure1")]


def names_of(study, dataset, choice=None):
    blocks = STUDIES[study]().blocks(choice or Choice())
    return {b.dataset: [v.name for v in b.variants] for b in blocks}[dataset]


@pytest.mark.parametrize("name", PROTOCOL)
def test_full_scale_is_the_published_protocol(name):
    study = STUDIES[name]()
    assert study.preset("full").name == "domainbed"
    assert study.preset("full").steps == 5001
    assert study.preset("lite").name == "lite"
    for block in study.blocks(Choice()):
        assert (block.draws, block.trials, block.test_domains) == (20, 3, ())
        assert all(variant.algorithm in ALGORITHMS for variant in block.variants)
    for part in study.parts():
        assert part.table.dataset in (None, part.dataset)


def test_each_row_of_components_switches_off_what_its_marks_say():
    part = STUDIES["ablation-components"]().parts()[0]
    off = {"GA": "match_gradients", "RA": "match_representations", "WU": "gradient_warmup",
           "MA": "gradient_ema"}  # fmt: skip
    assert part.rows[0].algorithm == "erm"
    for printed, variant in zip(part.table.rows[1:], part.rows[1:], strict=True):
        assert variant.algorithm == "idm"
        absent = {off[mark] for mark, on in zip(part.table.marks, printed.marks, strict=True)
                  if on == "no"}  # fmt: skip
        if "match_gradients" in absent:  # warm-up and average are of the gradients
            absent = {"match_gradients"}
        assert set(variant.hparams) == absent
        assert not any(variant.hparams.values())


def test_rows_of_the_other_ablations():
    assert names_of("ablation-pdm", "colored-mnist") == ["erm", "iga", "fishr", "iga-fishr", "idm"]
    assert names_of("ablation-gradient", "vlcs") == ["erm", "idm without gradients", "idm"]
    assert names_of("ablation-representation", "rotated-mnist") == [
        "erm", "idm without representations", "idm",
    ]  # fmt: skip


def test_ablations_share_their_runs():
    """One folder, one name, one meaning: what two tables need is run once."""
    meanings = {}
    for name in PROTOCOL:
        if STUDIES[name].folder == "ablations":
            for block in STUDIES[name]().blocks(Choice()):
                for v in block.variants:
                    found = (v.algorithm, dict(v.hparams), block.needs)
                    assert meanings.setdefault(v.name, found) == found


def test_table2_has_22_algorithms_on_seven_datasets():
    blocks = STUDIES["table2"]().blocks(Choice())
    assert [b.dataset for b in blocks] == [
        "colored-mnist", "rotated-mnist", "vlcs", "pacs", "office-home", "terra-incognita",
        "domain-net",
    ]  # fmt: skip
    assert all(len(b.variants) == 22 for b in blocks)
    assert blocks[0].needs.evaluate_pairs  # leave-one-domain-out
    lite = STUDIES["table2"]().blocks(Choice(scale="lite"))
    assert [b.dataset for b in lite] == ["colored-mnist", "rotated-mnist"]
    assert not lite[0].needs.evaluate_pairs


def test_what_is_not_in_the_package_must_be_named_or_given_at_lite_scale():
    gradients = STUDIES["ablation-gradient"]()
    with pytest.raises(InvalidValue, match=r'vlcs and pacs.*`data=\{"pacs": "FOLDER"\}`'):
        gradients.blocks(Choice(scale="lite"))
    given = gradients.blocks(Choice(scale="lite", data={"pacs": "pictures/pacs-sample"}))
    assert [block.dataset for block in given] == ["pacs"]
    named = gradients.blocks(Choice(scale="lite", datasets=("vlcs",)))
    assert [block.dataset for block in named] == ["vlcs"]
    with pytest.raises(UnknownName, match="dataset of this study 'paks'"):
        gradients.blocks(Choice(datasets=("paks",)))
    with pytest.raises(UnknownName, match="dataset of this study 'colored-mnist'"):
        gradients.blocks(Choice(data={"colored-mnist": "x"}))


def trials_of(make_run, row, *trials, dataset="colored-mnist", domains=COLOURS):
    """Return runs of one draw: in each trial a share for each domain held out."""
    return [
        make_run(
            dataset, row, domains, name, {name: share}, outside={name: share}, trial=trial
        )
        for trial, shares in enumerate(trials)
        for name, share in zip(domains, shares, strict=True)
    ]  # fmt: skip


def test_cells_are_the_selected_runs_and_averages_those_of_whole_trials(make_run):
    runs = trials_of(make_run, "idm", (0.7, 0.6, 0.5), (0.8, 0.7, 0.6))
    # Another draw that is worse on the out part, though better on the in part.
    runs.append(
        make_run(
            "colored-mnist", "idm", COLOURS, "90%", {"90%": 0.99}, outside={"90%": 0.1}, draw=1
        )
    )
    runs += trials_of(make_run, "erm", (0.5, 0.5, 0.1))[:2]  # the reversed one is yet to come
    (table,) = STUDIES["ablation-pdm"]().find(runs, Choice()).comparisons
    rows = {
        row.name: [c.ours and pytest.approx(c.ours.values) for c in row.cells] for row in table.rows
    }
    assert rows["IDM"] == [(70, 80), (60, 70), (50, 60), (60, 70)]
    assert rows["ERM"] == [(50,), (50,), None, None]
    assert rows["Fishr"] == [None] * 4
    assert table.columns == ("90%", "80%", "10%", "Average")
    assert [c.paper.value for c in table.rows[-1].cells] == [74.2, 73.5, 68.3, 72.0]
    assert "2 draws of hyper-parameters, 2 trials" in " ".join(table.notes)


def test_stand_ins_with_domains_of_their_own_have_columns_of_their_own(make_run):
    domains = ("amazon", "dslr", "webcam")
    runs = trials_of(make_run, "idm", (0.9, 0.8, 0.7), dataset="shop", domains=domains)
    choice = Choice(scale="lite", data={"office-home": "pictures/shop"})
    (table,) = STUDIES["ablation-components"]().find(runs, choice).comparisons
    assert table.columns == (*domains, "Average")
    assert all(cell.paper is None for row in table.rows for cell in row.cells)
    assert not table.comparable
    assert table.title == "shop in place of office-home (Table 6)"
    assert "Ours are on shop in place of office-home." in table.notes


def test_no_runs_no_tables():
    assert STUDIES["ablation-pdm"]().find([], Choice()).comparisons == ()


def test_table2_sums_up_datasets_and_ranks_those_there_are(make_run):
    turned = tuple(str(angle) for angle in range(0, 90, 15))
    runs = []
    for row, colour, turn in (("erm", 0.5, 0.9), ("idm", 0.7, 0.9), ("irm", 0.6, 0.8)):
        runs += trials_of(make_run, row, (colour,) * 3)
        runs += trials_of(make_run, row, (turn,) * 6, dataset="rotated-mnist", domains=turned)
    tables = {t.name: t for t in STUDIES["table2"]().find(runs, Choice()).comparisons}
    assert list(tables) == [
        "table2",
        "table2-ranks",
        "detail-colored-mnist",
        "detail-rotated-mnist",
    ]
    rows = {row.name: row.cells for row in tables["table2"].rows}
    assert [c.ours and pytest.approx(c.ours.values) for c in rows["IDM"]] == [(70,), (90,)] + [
        None
    ] * 6
    assert rows["IDM"][7].paper.value == 71.2  # ours needs all seven
    ranks = {
        row.name: [c.ours and c.ours.values[0] for c in row.cells]
        for row in tables["table2-ranks"].rows
    }
    assert ranks["IDM"] == [1, 1, 1]
    assert ranks["ERM"] == [2, 2, 3]
    assert ranks["IRM"] == [2.5, 2.5, 3]
    assert ranks["Mixup"] == [None] * 3
    assert not tables["table2-ranks"].comparable


def like_the_paper(make_run, shift, trials=(0,)):
    """Return runs on all seven datasets with the paper's averages, a little up or down."""
    table = paper_table("table2")
    runs = []
    for column, heading in enumerate(table.columns):
        domains = tuple(c.ours for c in paper_table(f"detail-{heading.ours}").columns)
        for at, row in enumerate(table.rows):
            share = (row.values[column].value + shift(at, column)) / 100
            runs += [
                make_run(
                    heading.ours, row.ours, domains, name, {name: share}, outside={name: share},
                    trial=trial,
                )
                for trial in trials
                for name in domains
            ]  # fmt: skip
    return runs


def tables_of(runs):
    choice = Choice(selection=("oracle",))
    return {t.name: t for t in STUDIES["table2"]().find(runs, choice).comparisons}


def test_ranks_are_of_averages_as_printed_like_the_papers(make_run):
    """Averages that differ below the printed decimal share a rank, as in the paper's Table 2."""
    runs = like_the_paper(make_run, lambda row, column: 0.04 * (-1) ** (row + column))
    for row in tables_of(runs)["table2-ranks"].rows:
        mean, median, worst = (cell.ours.values[0] for cell in row.cells)
        assert (round(mean, 1), median, worst) == tuple(c.paper.value for c in row.cells), row.name


def test_an_average_over_datasets_is_of_the_same_trials(make_run):
    """On one dataset trial 1 is yet to come: trial 2 of it does not stand beside another's 1."""
    runs = [
        replace(run, evaluations=(replaced(run, 0.1 * run.trial_seed),))
        for run in like_the_paper(make_run, lambda *_: 0.0, trials=(0, 1, 2))
        if run.algorithm in ("erm", "idm")
    ]
    late = [r for r in runs if (r.dataset, r.algorithm, r.trial_seed) == ("pacs", "idm", 1)]
    runs = [run for run in runs if run not in late]
    cells = {row.name: row.cells for row in tables_of(runs)["table2"].rows}
    first = {name: sum(c.ours.values[0] for c in row[:-1]) / 7 for name, row in cells.items()
             if row[0].ours}  # fmt: skip
    assert cells["ERM"][-1].ours.values == pytest.approx([first["ERM"] + 10 * t for t in range(3)])
    assert cells["IDM"][-1].ours.values == pytest.approx([first["IDM"] + 10 * t for t in (0, 2)])


def replaced(run, more):
    """Return a run's evaluation with accuracies that are so much higher."""
    (last,) = run.evaluations
    higher = [
        tuple(None if share is None else share + more for share in part)
        for part in (last.inside, last.outside)
    ]
    return last._replace(inside=higher[0], outside=higher[1])


@pytest.mark.parametrize(
    ("draws", "choice", "comparable"),
    [
        (20, Choice(), True),
        (19, Choice(), False),  # the best of fewer is lower
        (21, Choice(), False),  # and that of more is higher
        (20, Choice(scale="lite"), False),
    ],
)
def test_only_what_was_made_as_the_paper_did_is_compared_with_it(
    make_run, draws, choice, comparable
):
    runs = [
        make_run("colored-mnist", "idm", COLOURS, "10%", {"10%": 0.5}, outside={"10%": 0.5}, draw=d)
        for d in range(draws)
    ]
    (table,) = STUDIES["ablation-pdm"]().find(runs, choice).comparisons
    assert table.comparable == comparable
    assert any("among 20 draws" in note for note in table.notes) == (draws != 20)


def draws_of(make_run, row, count, domains=COLOURS, dataset="colored-mnist"):
    """Return runs of some draws, each domain held out, all with accuracy 0.5."""
    return [
        make_run(
            dataset, row, domains, name, dict.fromkeys(domains, 0.5),
            outside=dict.fromkeys(domains, 0.5), draw=draw,
        )
        for draw in range(count)
        for name in domains
    ]  # fmt: skip


def test_a_row_of_fewer_draws_than_the_others_is_not_compared(make_run):
    """The best of one draw beside the paper's best of twenty, though ERM has its twenty."""
    runs = [*draws_of(make_run, "erm", 20), *draws_of(make_run, "idm", 1)]
    (table,) = STUDIES["ablation-pdm"]().find(runs, Choice()).comparisons
    rows = {row.name: row.cells for row in table.rows}
    assert table.comparable
    assert rows["ERM"][2].difference == pytest.approx(50 - 28.7)
    assert rows["ERM"][3].difference == pytest.approx(50 - 57.8)
    assert rows["IDM"][2].ours.mean == 50
    assert [cell.difference for cell in rows["IDM"]] == [None] * 4
    summary = STUDIES["table2"]().find(runs, Choice(selection=("oracle",))).comparisons[0]
    rows = {row.name: row.cells for row in summary.rows}
    assert rows["ERM"][0].difference == pytest.approx(50 - 57.8)
    assert rows["IDM"][0].ours.mean == pytest.approx(50)
    assert rows["IDM"][0].difference is None


def test_the_paper_says_nothing_of_another_selector(make_run):
    runs = draws_of(make_run, "idm", 20)
    choice = Choice(selection=("training-domain",))
    (table,) = STUDIES["ablation-pdm"]().find(runs, choice).comparisons
    assert "training-domain" in table.title
    assert all(cell.paper is None for row in table.rows for cell in row.cells)
    assert table.rows[-1].cells[0].ours.mean == pytest.approx(50)
    names = [table.name for table in STUDIES["table2"]().find(runs, choice).comparisons]
    assert names == [
        "table2-training-domain",
        "table2-ranks-training-domain",
        "detail-colored-mnist-training-domain",
    ]


def test_table2_has_the_papers_notes_and_other_domains_a_column_of_their_own(make_run):
    shops = ("amazon", "dslr", "webcam")
    runs = draws_of(make_run, "idm", 1, shops, "shop") + draws_of(make_run, "idm", 1)
    choice = Choice("lite", data={"office-home": "shop", "pacs": "nowhere"})
    table = STUDIES["table2"]().find(runs, choice).comparisons[0]
    idm = dict(zip(table.columns, table.rows[-1].cells, strict=True))
    assert (idm["OffHome"].paper.value, idm["OffHome"].ours) == (68.3, None)
    assert (idm["shop"].paper, idm["shop"].ours.mean) == (None, pytest.approx(50))
    assert (idm["CMNIST"].paper.value, idm["CMNIST"].ours.mean) == (72.0, pytest.approx(50))
    assert (idm["Avg"].paper.value, idm["Avg"].ours) == (71.2, None)
    said = " ".join(table.notes)
    assert "on shop in place of office-home" in said
    assert "nowhere" not in said  # of pacs there is nothing here
    assert "SelfReg" in said
