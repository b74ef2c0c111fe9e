"""What held-out domains lose in R² and MAE, and what is said of it."""

import json

import numpy as np
import pytest
from _internals import (
    NUMBER_PARTS,
    DataError,
    _losses,
    _mean,
    advise,
    diagnose,
    diagnosis_About as About,
    diagnosis_blocks,
    diagnosis_html,
    diagnosis_json,
    diagnosis_picture,
    diagnosis_text,
    drops_table,
    percent_explained,
)
from sklearn.metrics import mean_absolute_error, r2_score

SITES = ("north", "south", "west")


def tables(seed=0, rows=150):
    """The west has a higher level and another slope; labels are in the hundreds."""
    rng = np.random.default_rng(seed)
    d = np.repeat([0, 1, 2], rows)
    x = rng.standard_normal((len(d), 3))
    slope = np.where(d == 2, -1.0, 1.0)
    y = 500 + 80 * x[:, 0] + 60 * slope * x[:, 1] + 120 * (d == 2)
    y += 30 * rng.standard_normal(len(d))
    return x, y, d


@pytest.fixture(scope="module")
def found():
    x, y, d = tables()
    return diagnose(x, y, d, domains=SITES, classes=(), features=("a", "b", "c"), seed=0)


def test_the_parts_add_up(found):
    for drop in found.drops:
        for loss in (drop.r2, drop.mae):
            parts = sum(getattr(loss, part).value for part in NUMBER_PARTS)
            assert parts == pytest.approx(loss.lost.value)
        assert drop.r2.lost.value == pytest.approx(drop.r2.trained_with - drop.r2.held_out)
        assert drop.mae.lost.value == pytest.approx(drop.mae.held_out - drop.mae.trained_with)


def test_another_level_and_another_meaning_are_told_apart(found):
    west = {drop.domain: drop for drop in found.drops}["west"]
    assert west.r2.held_out < 0
    assert west.r2.level.interval[0] > 50
    assert west.r2.meaning.interval[0] > 20
    assert abs(west.r2.unseen.value) < 5
    assert 20 < west.mae.trained_with < 40  # 30 √(2/π) = 24, of the labels' own unit
    assert west.mae.level.interval[0] > 5


def test_a_metric_is_scikit_learns():
    rng = np.random.default_rng(0)
    y, predicted = rng.standard_normal((2, 50))
    assert percent_explained(y, predicted)[0] == pytest.approx(100 * r2_score(y, predicted))
    assert _mean(np.abs(y - predicted))[0] == pytest.approx(mean_absolute_error(y, predicted))


def test_an_interval_of_a_loss_holds_it_as_often_as_it_says():
    inside = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        y = rng.standard_normal(150)
        steps = [
            percent_explained(y, y + error * rng.standard_normal(150))
            for error in (1.0, 0.9, 0.8, 0.7, 0.6)
        ]
        low, high = _losses(steps, NUMBER_PARTS, 0.95, 1)["lost"].interval
        inside += low <= 100 * (1 - 0.36) - 100 * (1 - 1.0) <= high
    assert inside / 400 == pytest.approx(0.95, abs=0.035)


def test_kinds_and_advice(found):
    advice = advise(found)
    assert advice.kinds == ("label", "concept") or "concept" in advice.kinds
    assert advice.choice.algorithm == "best"
    assert (advice.beside.algorithm, advice.beside.hparams) == ("idm", {})
    said = " ".join(advice.remarks)
    assert "mean label of a new domain" in said
    assert "points of R²" in said
    assert "accuracy" not in said
    assert "class" not in said


def test_the_report_speaks_of_numbers(found):
    about = About("prices", "3 domains", "prices.csv", "3 columns")
    advice = advise(found)
    text = diagnosis_text(found, advice, about)
    assert len(text.splitlines()) <= 26
    assert "R² lost if held out" in text
    details = diagnosis_text(found, advice, about, details=True)
    assert "Labels by domain" in details
    assert "given the label" in details
    page = diagnosis_html(about.title, diagnosis_json(found, advice, about))
    for each in (text, details, page):
        assert "accuracy" not in each.lower()
        assert "class " not in each
    assert diagnosis_picture(found, "prices")[:4] == b"\x89PNG"
    stored = json.loads(json.dumps(diagnosis_json(found, advice, about), allow_nan=False))
    headings = [block.heading for block in diagnosis_blocks(stored)]
    assert "Labels by domain" in headings
    assert "Which classes differ" not in headings
    lost = drops_table(stored)
    assert lost in [block.value for block in diagnosis_blocks(stored)]
    assert (lost.title, lost.rows[0].label) == ("R² lost if held out, in points", "west")


def test_what_the_labels_are(found):
    _, y, d = tables()
    for number, own in enumerate(found.numbers):
        assert own.mean == pytest.approx(y[d == number].mean())
        assert own.median == pytest.approx(np.median(y[d == number]))
        assert own.deviation == pytest.approx(y[d == number].std(ddof=1))
    assert found.sizes == (150, 150, 150)
    assert found.classes == ()


def test_a_domain_of_equal_labels_has_no_r2():
    x, y, d = tables(rows=60)
    y[d == 1] = 500
    found = diagnose(x, y, d, domains=SITES, classes=(), seed=0)
    south = {drop.domain: drop for drop in found.drops}["south"]
    assert south.r2 is None
    assert south.mae.held_out > 0
    assert "–" in diagnosis_text(found, advise(found), About("prices", "3 domains"))


def test_equal_labels_are_refused_in_one_line():
    x, _, d = tables(rows=20)
    with pytest.raises(DataError, match=r"all 60 samples have the label 7; at least two values"):
        diagnose(x, np.full(60, 7.0), d, domains=SITES, classes=(), seed=0)
