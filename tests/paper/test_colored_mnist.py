"""Table 1 and Figure 1: which runs, with which hyper-parameters, and what is read from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from _internals import Choice, DataError, Evaluation, Figure1, Table1, UnknownName

DOMAINS = ("90%", "80%", "10%")


def test_the_full_table_is_six_methods_ten_times_without_the_reversed_domain():
    (block,) = Table1().blocks(Choice())
    assert [v.name for v in block.variants] == ["ERM", "IRM", "V-REx", "IGA", "Fishr", "IDM"]
    assert {v.algorithm for v in block.variants} == {"two-stage"}
    assert (block.dataset, block.test_domains) == ("colored-mnist-irm", ("10%",))
    assert (block.draws, block.trials) == (1, 10)
    preset = Table1().preset("full")
    assert (preset.steps, preset.holdout, preset.hparams["batch_size"]) == (500, 0.0, 0)


def test_hyper_parameters_are_those_that_were_selected():
    (block,) = Table1().blocks(Choice())
    hparams = {variant.name: variant.hparams for variant in block.variants}
    assert {name: h["penalty"] for name, h in hparams.items()} == {
        "ERM": "none", "IRM": "irm", "V-REx": "vrex", "IGA": "iga", "Fishr": "fishr", "IDM": "idm",
    }  # fmt: skip
    names = ("hidden", "norm_weight", "lr", "anneal_steps", "penalty_weight")
    values = {name: tuple(h[key] for key in names) for name, h in hparams.items()}
    assert values["IDM"] == (433, 0.00034, 0.000449, 154, 2888595.180638)
    assert values["IGA"] == (138, 0.001555, 0.001837, 118, 17320494.495665)
    for name in ("ERM", "IRM", "V-REx", "Fishr"):
        assert values[name] == (390, 0.00110794568, 0.0004898536566546834, 190, 91257.18613115903)


def test_lite_is_smaller_and_shares_no_run_with_full():
    (block,) = Table1().blocks(Choice(scale="lite", rows=("IGA", "IDM"), runs=2))
    assert [v.hparams["hidden"] for v in block.variants] == [128, 128]
    assert block.trials == 2
    preset = Table1().preset("lite")
    assert (preset.name, preset.options) == ("table1-lite", {"per_domain": "5000"})


def test_the_figure_is_the_first_run_of_idm_in_the_table():
    (table,), (figure,) = Table1().blocks(Choice()), Figure1().blocks(Choice())
    assert figure.variants == table.variants[-1:]
    assert (figure.trials, figure.needs) == (1, table.needs)
    assert Figure1.folder == Table1.folder
    assert figure.variants[0].hparams["track_penalties"] is True


def test_a_row_that_is_not_there():
    with pytest.raises(UnknownName, match="'VREx'; did you mean 'V-REx'"):
        Table1().blocks(Choice(rows=("VREx",)))


def runs_of(make_run, row, *trials):
    """Return runs with these shares on 90%, 80%, 10% and in gray."""
    return [
        make_run(
            "colored-mnist-irm",
            row,
            DOMAINS,
            "10%",
            dict(zip(DOMAINS, shares[:3], strict=True)),
            trial=trial,
            extras=(("gray", shares[3]),),
        )
        for trial, shares in enumerate(trials)
    ]


def test_the_table_has_the_mean_of_training_domains_the_reversed_one_and_gray(make_run):
    runs = runs_of(make_run, "IDM", (0.8, 0.7, 0.6, 0.5), (0.6, 0.5, 0.4, 0.3))
    runs += [replace(run, status="diverged") for run in runs_of(make_run, "ERM", (0, 0, 0, 0))]
    (table,) = Table1().find(runs, Choice()).comparisons
    rows = {row.name: row.cells for row in table.rows}
    assert [cell.ours.values for cell in rows["IDM"]] == [
        pytest.approx((75.0, 55.0)), pytest.approx((60.0, 40.0)), pytest.approx((50.0, 30.0)),
    ]  # fmt: skip
    assert [cell.paper.value for cell in rows["IDM"]] == [70.2, 70.6, 70.5]
    assert all(cell.ours is None for name in ("ERM", "IRM") for cell in rows[name])
    assert table.comparable
    assert table.error == "standard deviation"
    (lite,) = Table1().find(runs, Choice(scale="lite")).comparisons
    assert not lite.comparable
    assert "5,000 digits" in " ".join(lite.notes)
    assert "gray accuracy (71.0)" in " ".join(table.notes)  # what the paper says of its own


def test_other_data_are_not_compared_and_low_precision_is_said(make_run):
    runs = [
        replace(run, dataset="mine", config={"precision": "bf16"})
        for run in runs_of(make_run, "IDM", (0.8, 0.7, 0.6, 0.5))
    ]
    choice = Choice(data={"colored-mnist-irm": "folder/mine"})
    (table,) = Table1().find(runs, choice).comparisons
    assert not table.comparable
    assert {"Ours are in bf16.", "Ours are on mine in place of colored-mnist-irm."} <= {
        *table.notes
    }


def test_runs_without_training_accuracies_are_refused(make_run):
    (run,) = runs_of(make_run, "IDM", (0.8, 0.7, 0.6, 0.5))
    blind = replace(run, evaluations=(Evaluation(500, (None, None, 0.6), (None,) * 3),))
    with pytest.raises(DataError, match="IDM has no accuracy on 90%"):
        Table1().find([blind], Choice())


def test_the_curves_are_those_of_the_lowest_seed(make_run):
    first, second = runs_of(make_run, "IDM", (0.9, 0.7, 0.6, 0.5), (0.1, 0.1, 0.1, 0.1))
    names = ("irm", "vrex", "iga", "fishr", "idm")
    losses = tuple((f"{name}_penalty", float(i)) for i, name in enumerate(names))
    last = first.evaluations[0]._replace(losses=losses)
    first = replace(first, evaluations=(last._replace(step=1), last))
    curves = Figure1().find([second, first], Choice()).curves
    assert curves.steps == (1, 500)
    assert curves.penalties["V-REx"] == (1.0, 1.0)
    assert list(curves.penalties) == ["IRM", "V-REx", "IGA", "Fishr", "IDM"]
    assert curves.accuracies["train"] == pytest.approx((0.8, 0.8))
    assert curves.accuracies["gray"] == (0.5, 0.5)
    assert curves.switch == 154
    assert Figure1().find([], Choice()).curves is None
