"""The forest plot, the report card and the reliability diagrams, before they are HTML."""

import math
from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    LEFT,
    POOLED,
    RIGHT,
    TOP,
    Axis,
    Outputs,
    confusion_table,
    expectation_blocks,
    forest_plot,
    page_values,
    prediction_panels,
    reliability,
    reliability_BOTTOM as BOTTOM,
    render_Source as Source,
    report_card,
)
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, roc_auc_score

WARDS = {"a": 1.5, "b": 1.0, "c": 2.0, "d": 1.2, "e": 1.6, "odd": -2.0}


def test_the_forest_has_a_row_a_domain_then_the_mean_then_the_next(made):
    own = made.held_out(WARDS, metric="auroc")
    plot, score = forest_plot(own), own.expected.headline
    assert [row.label for row in plot.table.rows] == [
        *("a", "b", "c", "d", "e", "odd *", "typical domain", "next domain")
    ]
    assert plot.table.foot == 2
    ends = [end for each in score.estimates.values() for end in (each.low, each.high)]
    assert plot.axis == Axis.over([*score.interval, *ends], margin=0.02)
    span, dot = plot.marks[1]
    outputs = own.expected.outputs["b"]
    area = roc_auc_score(outputs.labels, outputs.probabilities[:, 1])
    assert (span.kind, dot.kind) == ("span", "dot")
    assert dot.start == pytest.approx(area)
    assert plot.placed[1][1].start == plot.axis.percent(area)
    own_ends = score.estimates["b"].low, score.estimates["b"].high
    assert (span.start, span.end) == own_ends
    middle, diamond = plot.marks[-2]
    assert (diamond.kind, diamond.start) == ("diamond", score.mean)
    assert (middle.start, middle.end) == score.mean_interval
    (bar,) = plot.marks[-1]
    assert (bar.kind, bar.start, bar.end) == ("bar", *score.interval)
    assert bar.start < middle.start < middle.end < bar.end
    assert plot.title == "AUROC"
    assert "with probability 95%" in plot.tips[-1]
    assert len(plot.tips) == len(plot.marks) == len(plot.table.rows)
    assert any(note.startswith("*: unlike") for note in plot.table.notes)


def test_it_is_the_first_section_of_the_page(made):
    outcomes = made.grid({"erm": [0.5, 0.6]}, standalone=True)
    known = [made.held_out(WARDS)]
    page = page_values(outcomes, made.chosen(outcomes), "erm", Source(held_out=known))
    first = page.sections[0]
    assert (first.name, first.blocks[0].kind) == ("expect", "dots")
    assert page.sentence.startswith("At a domain like these expect")
    without = page_values(outcomes, made.chosen(outcomes), "erm", Source())
    assert without.sections[0].name == "accuracy"


def test_the_better_algorithm_comes_first_and_the_others_are_folded(made):
    worse = made.held_out({name: trust / 3 for name, trust in WARDS.items()})
    better = replace(made.held_out(WARDS), title="IDM on wards")
    blocks = expectation_blocks([worse, better])
    assert blocks[0].heading == "IDM on wards"
    assert not blocks[0].folded
    assert [block.folded for block in blocks if block.heading.startswith("ERM")] == [True] * 4


def test_one_held_out_domain_has_a_card_and_no_forest(made):
    blocks = expectation_blocks([made.held_out({"a": 1.0})])
    assert [block.kind for block in blocks] == ["table", "panels", "table"]
    assert blocks[0].value.foot == 0


def test_the_card_has_every_score_the_worst_and_all_rows(made):
    own = made.held_out(WARDS)
    table = report_card(own.expected, every=True)
    labels = [row.label for row in table.rows]
    assert labels == [*WARDS, "typical domain", "worst domain", "next domain, 95%", POOLED]
    titles = [column.title for column in table.columns]
    assert {"Accuracy", "AUROC", "F1", "Brier", "Calibration slope"} < set(titles)
    at = titles.index("AUROC")
    cells = {row.label: row.cells[at] for row in table.rows}
    outputs = own.expected.outputs["odd"]
    area = roc_auc_score(outputs.labels, outputs.probabilities[:, 1])
    assert cells["odd"].text == cells["worst domain"].text == f"{area:.3f}"
    low, high = own.expected.score("auroc").interval
    assert cells["next domain, 95%"].text == f"{low:.3f}–{high:.3f}"
    y = np.concatenate([each.labels for each in own.expected.outputs.values()])
    p = np.concatenate([each.probabilities for each in own.expected.outputs.values()])
    assert cells[POOLED].text == f"{roc_auc_score(y, p[:, 1]):.3f}"


def test_bins_are_those_of_scikit_learn(made):
    outputs = made.held_out({"a": 1.0}, rows=300).expected.outputs["a"]
    bins = reliability(outputs)
    share, mean = calibration_curve(outputs.labels, outputs.probabilities[:, 1], n_bins=10)
    assert [each.observed for each in bins] == pytest.approx(list(share))
    assert [each.predicted for each in bins] == pytest.approx(list(mean))
    assert sum(each.samples for each in bins) == 300
    assert all(each.low <= each.observed <= each.high for each in bins)
    several = made.held_out({"a": 1.0}, classes=3, rows=300).expected.outputs["a"]
    right = several.probabilities.argmax(axis=1) == several.labels
    share, _ = calibration_curve(right, several.probabilities.max(axis=1), n_bins=10)
    assert [each.observed for each in reliability(several)] == pytest.approx(list(share))


def test_calibrated_samples_lie_on_the_diagonal():
    rng = np.random.default_rng(0)
    second = rng.random(50_000)
    labels = (rng.random(50_000) < second).astype(int)
    bins = reliability(Outputs(np.stack([1 - second, second], axis=1), labels, labels))
    assert sum(each.low <= each.predicted <= each.high for each in bins) >= 9
    for each in bins:
        reach = 1.96 * math.sqrt(each.observed * (1 - each.observed) / each.samples)
        assert (each.high - each.low) / 2 == pytest.approx(reach, rel=0.02)


def test_a_reliability_diagram_of_each_domain_and_of_all(made):
    own = made.held_out(WARDS)
    panels = prediction_panels(own.expected)
    assert [panel.title for panel in panels.panels] == [POOLED, *WARDS]
    assert (panels.x_title, panels.y_title) == ("Probability of class b", "Share of class b")
    (first, *_) = reliability(own.expected.outputs["a"])
    point = panels.panels[1].points[0]
    assert point.x == pytest.approx(LEFT + (RIGHT - LEFT) * first.predicted, abs=0.06)
    assert point.y == pytest.approx(BOTTOM - (BOTTOM - TOP) * first.observed, abs=0.06)
    assert point.high <= point.y <= point.low  # down is less in a chart, and more in an SVG
    assert f"({first.low:.2f} to {first.high:.2f})" in point.tip


def test_confusion_by_domain(made):
    own = made.held_out({"a": 1.0, "b": 2.0}, classes=3)
    table = confusion_table(own.expected)
    outputs = own.expected.outputs["b"]
    expected = confusion_matrix(outputs.labels, outputs.probabilities.argmax(axis=1))
    found = [[int(c.text) for c in row.cells[1:]] for row in table.rows if row.label == "b"]
    assert found == expected.tolist()
