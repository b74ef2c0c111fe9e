"""The page of a model that was trained on all domains."""

import numpy as np
import pandas as pd
import pytest
from _internals import HELD_OUT_WITHIN, SET_ASIDE, training_results

import shiftproof


def wards(n=150):
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, n)
    columns = {"x": rng.normal(size=n) + 2 * ill, "ill": ill, "ward": list("abc") * (n // 3)}
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("algorithm", "settings", "note"),
    [("linear", {}, HELD_OUT_WITHIN), ("erm", {"steps": 3, "hparams": {"hidden": 4}}, SET_ASIDE)],
)
def test_it_shows_how_the_training_domains_do(algorithm, settings, note, tmp_path):
    run = shiftproof.train(
        wards(), algorithm, label="ill", domain="ward", out=tmp_path / "final", **settings
    )
    report = shiftproof.report(tmp_path / "final")
    accuracies, said = training_results(report.runs)
    assert (list(accuracies), said) == (["a", "b", "c"], note)
    if algorithm == "erm":
        assert accuracies == {name: run.metrics["accuracy"][f"{name}/out"] for name in "abc"}
    page = report.page()
    mean = np.mean(list(accuracies.values()))
    assert "This model was trained on all 3 domains" in page
    assert f"it is right on {mean:.1%} of the rows" in page
    assert "Accuracy on the training domains" in page


def test_a_run_that_held_out_a_domain_has_a_test(tmp_path):
    out = tmp_path / "run"
    shiftproof.train(wards(), "linear", test_domains="a", label="ill", domain="ward", out=out)
    assert training_results(shiftproof.report(out).runs) is None
