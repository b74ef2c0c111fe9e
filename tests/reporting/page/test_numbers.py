"""Pictures of predicted numbers on the page, before they are HTML."""

import numpy as np
import pytest
from _internals import (
    POOLED,
    Axis,
    Expected,
    NumberOutputs,
    errors_of,
    errors_plot,
    expectation_blocks,
    expectation_HeldOut as HeldOut,
    number_bins,
    prediction_panels,
    report_card,
)


def site(seed, bias=0.0, n=95):
    rng = np.random.default_rng(seed)
    y = 5000 + 1000 * rng.standard_normal(n)
    return NumberOutputs(y - bias + 300 * rng.standard_normal(n), y, np.arange(n))


@pytest.fixture
def expected():
    return Expected({"a": site(0), "b": site(1, 400), "c": site(2, -200)}, "mae")


def test_bins_have_at_least_ten_rows_and_all_of_them():
    own = site(0)
    bins = number_bins(own)
    assert [each.samples for each in bins] == [11] * 5 + [10] * 4
    mean = sum(each.label * each.samples for each in bins) / 95
    assert mean == pytest.approx(own.labels.mean())
    assert all(each.low <= each.label <= each.high for each in bins)
    assert len(number_bins(site(0, n=7))) == 1


def test_errors_are_label_less_prediction():
    own = site(1, bias=400)
    found = errors_of(own)
    assert found.mean == pytest.approx((own.labels - own.predicted).mean())
    assert found.mean > 300
    low, high = found.range
    inside = (own.labels - own.predicted >= low) & (own.labels - own.predicted <= high)
    assert inside.mean() == pytest.approx(0.8, abs=0.02)


def test_panels_share_square_axes(expected):
    panels = prediction_panels(expected)
    assert [panel.title for panel in panels.panels] == [POOLED, "a", "b", "c"]
    (diagonal,) = panels.panels[0].lines
    assert diagonal.kind == "ideal"
    assert [tick.label for tick in panels.x_ticks] == [tick.label for tick in panels.y_ticks]
    # In b labels are higher than predicted: points lie above the diagonal (less is higher in SVG).
    bottom = panels.frame.bottom
    height = bottom - 24
    above = [
        (bottom - point.y) / height > (point.x - 38) / (230 - 38)
        for point in panels.panels[2].points
    ]
    assert np.mean(above) > 0.8


def test_the_errors_plot_has_a_zero_and_its_domains(expected):
    plot = errors_plot(expected)
    assert [row.label for row in plot.table.rows] == ["a", "b", "c", POOLED]
    kinds = [mark.kind for mark in plot.marks[0]]
    assert kinds == ["zero", "span", "bar", "dot"]
    assert plot.marks[1][3].start > plot.marks[1][0].start  # the mean error of b is above zero
    assert plot.marks[2][3].start < plot.marks[2][0].start
    assert isinstance(Axis.over([0, 1]), Axis)


def test_the_card_has_all_scores_of_numbers(expected):
    table = report_card(expected, every=True)
    assert [column.title for column in table.columns] == [
        "Rows", "R²", "MAE", "RMSE", "Calibration slope", "Calibration intercept",
        "Interval coverage", "Training mean",
    ]  # fmt: skip
    labels = [row.label for row in table.rows]
    assert labels == ["a", "b", "c", "typical domain", "worst domain", "next domain, 95%", POOLED]
    mae = table.rows[4].cells[2].text
    worst = max(np.abs(own.labels - own.predicted).mean() for own in expected.numbers.values())
    assert float(mae.replace(",", "")) == pytest.approx(worst, rel=0.01)
    assert "commonest" not in " ".join(table.notes).lower()


def test_blocks_of_numbers_come_in_this_order(expected):
    blocks = expectation_blocks([HeldOut("best on prices", expected)])
    assert [block.heading for block in blocks] == [
        "", "Report card", "Predicted against true", "Errors",
    ]  # fmt: skip
    assert blocks[0].words.startswith("Expect MAE ")
