"""Numbers to predict, from a table to what to expect, intervals and the page."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import half_width

import shiftproof as api

CITIES = ("bath", "hull", "leeds", "york")


def prices(seed: int = 0, cities: tuple[str, ...] = CITIES, n: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for city in cities:
        area = rng.normal(90, 25, n)
        price = 30_000 + 9_000 * rng.standard_normal() + 1_900 * area + rng.normal(0, 15_000, n)
        parts.append(pd.DataFrame({"city": city, "area": area.round(1), "price": price.round()}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any) -> Path:
    """Runs that hold out each of four cities, and a table of a fifth."""
    folder = tmp_path_factory.mktemp("prices")
    prices().to_csv(folder / "known.csv", index=False)
    prices(1, ("truro",)).to_csv(folder / "new.csv", index=False)
    api.train_each(
        folder / "known.csv", "linear", label="price", domain="city", out=folder / "runs",
        device="cpu",
    )  # fmt: skip
    return folder


def test_what_to_expect_of_a_folder_of_runs(runs: Path, shiftproof: Any) -> None:
    code, printed, err = shiftproof("expect", runs / "runs", "--at-least", 60000)
    assert code == 0, err
    assert "MAE to expect at the next domain" in printed
    assert "The probability that the next domain is above 60000 is 0." in printed
    code, printed, err = shiftproof("expect", runs / "runs", "--metric", "r2", "--json")
    found = json.loads(printed)
    assert found["metric"] == "r2"
    assert found["expected"]["r2"]["low"] < found["expected"]["r2"]["mean"] < 1
    assert set(found["domains"][0]["scores"]) == {
        "r2", "mae", "rmse", "calibration_slope", "calibration_intercept",
    }  # fmt: skip
    code, _, err = shiftproof("expect", runs / "runs", "--metric", "auroc")
    assert code == 2
    assert "--metric 'auroc' is unknown" in err


def test_intervals_from_held_out_runs(runs: Path, shiftproof: Any) -> None:
    run, table = runs / "runs" / "bath", runs / "new.csv"
    code, printed, err = shiftproof(
        "predict", run, table, "--interval", 0.75, "--expected", runs / "runs"
    )
    assert code == 0, err
    (runs / "found.csv").write_text(printed)
    found = pd.read_csv(runs / "found.csv")
    q, promised = half_width(list(api.expect(runs / "runs").numbers.values()), 0.75)
    assert promised
    assert "note: intervals" not in err
    np.testing.assert_allclose(found.high - found.predicted, q, rtol=1e-4)
    np.testing.assert_allclose(found.predicted - found.low, q, rtol=1e-4)
    truth = pd.read_csv(table).price
    assert ((truth >= found.low) & (truth <= found.high)).mean() > 0.6


def test_intervals_from_the_model_alone(runs: Path, shiftproof: Any) -> None:
    code, printed, err = shiftproof(
        "predict", runs / "runs" / "bath", runs / "new.csv", "--interval", 0.9
    )
    assert code == 0, err
    assert "intervals of 0.9 need 9 held-out domains, but there are only 3" in err
    (runs / "own.csv").write_text(printed)
    found = pd.read_csv(runs / "own.csv")
    model = api.load_model(runs / "runs" / "bath")
    width = model.half_width(0.9)
    assert found.high[0] - found.low[0] == pytest.approx(2 * width.half, rel=1e-4)


def test_a_model_file_tells_no_error_of_a_single_row(runs: Path) -> None:
    folder = runs / "runs" / "bath"
    model = api.load_model(folder)
    known = prices()
    trained = known[known.city != "bath"]
    content = (folder / "model.safetensors").read_bytes()
    stored = [width.half for width in model.half_widths.widths]
    errors = np.concatenate(
        [np.abs(own.labels - own.predicted) for own in api.expect(runs / "runs").numbers.values()]
    )
    assert np.abs(errors[:, None] - stored).min() > 1e-3
    for price in trained.price:
        assert f"{price:.1f}".encode() not in content
        assert struct.pack("<d", price) not in content


def test_a_private_model_keeps_no_widths(tmp_path: Path) -> None:
    run = api.train(
        prices(), "linear", label="price", domain="city", test_domains="bath", private=True,
        out=tmp_path / "run", device="cpu",
    )  # fmt: skip
    assert run.model.half_widths is None
    with pytest.raises(Exception, match="give `expected`"):
        run.model.half_width(0.9)


def test_evaluation_with_a_card_and_what_was_expected(runs: Path, shiftproof: Any) -> None:
    run, table = runs / "runs" / "bath", runs / "new.csv"
    asked = ("evaluate", run, table, "--expected", runs / "runs")
    code, printed, err = shiftproof(*asked)
    assert code == 0, err
    assert "report card" in printed
    assert "calibration slope" in printed
    assert "truro: MAE " in printed
    code, printed, err = shiftproof(*asked, "--metric", "rmse", "--json")
    (compared,) = json.loads(printed)["expected"]
    assert compared["metric"] == "rmse"
    assert compared["state"] in ("inside", "worse", "better")


def test_the_page_shows_numbers(runs: Path, shiftproof: Any) -> None:
    code, _, err = shiftproof("report", runs / "runs", "--format", "html", "--out", runs / "p.html")
    assert code == 0, err
    page = (runs / "p.html").read_text()
    for said in ("Predicted against true", "Label less prediction", "Interval coverage", "R² is"):
        assert said in page
    assert "like these expect an error of " in page
    assert "; the mean alone gives " in page
    assert "Accuracy" not in page


def test_wrong_settings_are_told_in_one_line(runs: Path, shiftproof: Any) -> None:
    run, table = runs / "runs" / "bath", runs / "new.csv"
    cases = {
        ("--interval", "1.5"): "--interval must be between 0 and 1, not 1.5",
        ("--expected", runs / "runs"): "--expected needs --sets, or --interval for numbers",
        ("--sets", "0.9", "--expected", runs / "runs"): "--sets and --adapt are for classes",
    }
    for given, said in cases.items():
        code, _, err = shiftproof("predict", run, table, *given)
        assert code == 2
        assert said in err
