"""A metric from another package is everywhere: card, `expect`, page, terminal, JSON, `--metric`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from _internals import InvalidValue, UnknownName
from sklearn.metrics import matthews_corrcoef

import shiftproof
from shiftproof.metrics import METRICS, Metric, NumberOutputs, Outputs


@pytest.fixture
def matthews() -> Iterator[None]:
    shiftproof.METRICS.register("matthews")(
        shiftproof.Metric(lambda own: float(matthews_corrcoef(own.labels, own.predicted)))
    )
    yield
    del METRICS._entries["matthews"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 240)
    frame = pd.DataFrame({"age": rng.normal(ill, 1), "ill": ill, "ward": np.tile(list("abcd"), 60)})
    path = tmp_path / "wards.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.usefixtures("matthews")
def test_a_new_metric_is_everywhere(
    shiftproof: Callable[..., tuple[int, str, str]], table: Path, tmp_path: Path
) -> None:
    data = [table, "--label", "ill", "--domain", "ward", "-a", "linear", "-q"]
    code, out, _ = shiftproof("expect", *data, "--metric", "matthews", "--out", tmp_path / "runs")
    assert code == 0
    assert "Expect matthews 0." in out
    stored = json.loads(
        shiftproof("expect", tmp_path / "runs", "--metric", "matthews", "--json")[1]
    )
    expected = stored["expected"]["matthews"]
    assert expected["low"] < expected["mean"] < expected["high"]
    by_domain = [domain["scores"]["matthews"] for domain in stored["domains"]]
    assert all(0 < value < 1 for value in by_domain)
    code, _, err = shiftproof(
        "study", *data, "--metric", "matthews", "--no-open", "--out", tmp_path / "study"
    )
    assert code == 0, err
    page = (tmp_path / "study" / "report.html").read_text("utf-8")
    assert "expect matthews 0." in page
    assert page.count("Matthews") > 2  # both report cards and the forest plot
    code, out, _ = shiftproof("evaluate", tmp_path / "study", table)
    assert "matthews" in out


@pytest.mark.usefixtures("matthews")
def test_its_interval_is_the_jackknifes() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (200, 150))
    chances = 1 / (1 + np.exp(-(2 * labels - 1 + 1.5 * rng.standard_normal(labels.shape))))
    metric = METRICS.get("matthews")
    found = [
        metric.estimate(Outputs(np.stack([1 - p, p], axis=1), y))
        for p, y in zip(chances, labels, strict=True)
    ]
    values = [one.value for one in found if one is not None]
    claimed = [one.variance for one in found if one is not None]
    assert np.mean(claimed) == pytest.approx(np.var(values, ddof=1), rel=0.3)


def test_names_are_those_of_the_task() -> None:
    assert METRICS.of("regression")[:3] == ("r2", "mae", "rmse")
    assert "commonest_class" not in METRICS.of("classification")
    assert "commonest_class" in METRICS.of("classification", expected=False)
    with pytest.raises(InvalidValue, match="'mae' is unknown"):
        METRICS.checked("mae", "classification")
    with pytest.raises(UnknownName, match="unknown metric 'auc'; did you mean 'auroc'"):
        METRICS.get("auc")


def test_an_undefined_metric_is_none() -> None:
    metric = Metric(lambda own: None if len(own.labels) < 5 else 0.5, "odd")
    one = NumberOutputs(np.arange(3.0), np.arange(3.0))
    assert metric.estimate(one) is None
    constant = NumberOutputs(np.arange(30.0), np.arange(30.0))
    assert metric.estimate(constant) is None  # no sampling error
