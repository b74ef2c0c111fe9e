"""Figure 1: the penalties' course while IDM's is minimised, drawn from values made by hand."""

import io
import re

import matplotlib.image
import numpy as np
import pytest
from _internals import DataError, normalised, reporting_dynamics as drawing, write_dynamics

STEPS, SWITCH = list(range(0, 600, 20)), 154
NAMES = ["IRM", "V-REx", "IGA", "Fishr", "IDM"]


def penalties(size=1.0):
    """Rise until the warm-up ends, then fall by orders of magnitude, each at its own pace."""
    steps = np.array(STEPS)
    return {
        name: (
            size * 10.0**-i * np.minimum(steps + 1, SWITCH)
            * np.exp(-np.maximum(steps - SWITCH, 0) / (20 + 10 * i))
        ).tolist()
        for i, name in enumerate(NAMES)
    }  # fmt: skip


def accuracies():
    return {name: np.linspace(0.5, last, len(STEPS)).tolist()
            for name, last in (("train", 0.71), ("test", 0.7), ("gray", 0.72))}  # fmt: skip


def draw(path, *values, **others):
    """Write the figure, and return it beside the paths."""
    figures = []
    real = drawing.Figure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "Figure", lambda **f: figures.append(real(**f)) or figures[-1])
        paths = write_dynamics(*values, path_without_suffix=path, **others)
    (figure,) = figures
    figure.draw_without_rendering()  # boxes in the units of the PNG, which was not written last
    return figure, paths


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The whole figure and its files."""
    path = tmp_path_factory.mktemp("figure") / "figure1.lite"
    return draw(path, penalties(), STEPS, SWITCH, accuracies=accuracies())


@pytest.fixture(scope="module")
def figure(drawn):
    return drawn[0]


def lines_of(axes):
    """The curves, without the lines that only mark a place."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_each_series_is_divided_by_its_own_maximum():
    found = normalised({"IRM": [1.0, 4.0, 2.0], "IDM": [1e-9, 0.0, 5e-10]})
    assert found == {"IRM": (0.25, 1.0, 0.5), "IDM": (1.0, 0.0, 0.5)}
    for large, small in zip(*(normalised(penalties(s)).values() for s in (1e6, 1e-6)), strict=True):
        assert large == pytest.approx(small)
    assert all(max(values) == 1 for values in normalised(penalties()).values())


def test_a_series_of_zeros_stays_zero():
    assert normalised({"IGA": [0.0, 0.0]}) == {"IGA": (0.0, 0.0)}
    assert normalised({"IGA": []}) == {"IGA": ()}


def test_an_estimate_may_be_below_zero_but_not_always():
    assert normalised({"IRM": [-1.0, 2.0]}) == {"IRM": (-0.5, 1.0)}
    for never_above in ([-1.0, -2.0], [-1.0, 0.0]):
        with pytest.raises(DataError, match="IRM is never above 0"):
            normalised({"IRM": never_above})


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(broken, tmp_path):
    series = {**penalties(), "Fishr": [1.0, broken, *penalties()["Fishr"][2:]]}
    with pytest.raises(DataError, match=r"value 1 of the penalty Fishr is -?(nan|inf)"):
        normalised(series)
    with pytest.raises(DataError):
        write_dynamics(series, STEPS, SWITCH, tmp_path / "figure1")
    assert not list(tmp_path.iterdir())


def test_both_files_are_what_they_are_called(drawn):
    _, paths = drawn
    assert [path.name for path in paths] == ["figure1.lite.png", "figure1.lite.pdf"]
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)
    png, pdf = (path.read_bytes() for path in paths)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    picture = matplotlib.image.imread(io.BytesIO(png))
    assert picture.shape[1] == 1050  # 3.5 inches at 300 dots
    assert picture[..., :3].std() > 0.05
    assert pdf.startswith(b"%PDF-1.")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1
    assert b"/Subtype /Type3" not in pdf  # which publishers refuse
    assert b"CreationDate" not in pdf


def test_equal_values_give_equal_bytes_and_others_do_not(drawn, tmp_path):
    first = [path.read_bytes() for path in drawn[1]]
    for name in ("IGA", "IRM"):
        values = {**penalties(), "IGA": penalties()[name]}
        # Over what was written before.
        _, paths = draw(tmp_path / "again", values, STEPS, SWITCH, accuracies=accuracies())
        same = [path.read_bytes() == data for path, data in zip(paths, first, strict=True)]
        assert same == [name == "IGA"] * 2


def test_the_same_curves_are_in_the_linear_and_the_logarithmic_panel(figure):
    linear, logarithmic, _ = figure.axes
    assert (linear.get_yscale(), logarithmic.get_yscale()) == ("linear", "log")
    for axes in (linear, logarithmic):
        lines = lines_of(axes)
        assert sorted(lines) == sorted(NAMES)
        for name, values in normalised(penalties()).items():
            assert lines[name].get_ydata() == pytest.approx(values)
            assert list(lines[name].get_xdata()) == STEPS
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == sorted(NAMES)


def test_no_two_lines_look_alike(figure):
    for axes in figure.axes:
        lines = lines_of(axes).values()
        assert len({line.get_color() for line in lines}) == len(lines)
        # In grey, too.
        assert len({str(line._unscaled_dash_pattern) for line in lines}) == len(lines)


def test_the_end_of_the_warm_up_is_marked_in_every_panel_and_named(figure, tmp_path):
    late, _ = draw(tmp_path / "late", penalties(), STEPS, 560)
    for drawing_, switch in ((figure, SWITCH), (late, 560)):
        for axes in drawing_.axes:
            marks = [line for line in axes.lines if list(line.get_xdata()) == [switch, switch]]
            assert [line.get_linestyle() for line in marks] == [":"]
        (label,) = drawing_.axes[0].texts
        assert label.get_text() == "end of warm-up"
        box, panel = label.get_window_extent(), drawing_.axes[0].get_window_extent()
        assert panel.x0 <= box.x0 < box.x1 <= panel.x1


def test_accuracies_are_in_percent_beside_the_ceiling(figure):
    axes = figure.axes[2]
    lines = lines_of(axes)
    assert sorted(lines) == ["gray", "test", "train"]
    assert lines["train"].get_ydata()[-1] == pytest.approx(71)
    assert [line for line in axes.lines if list(line.get_ydata()) == [75, 75]]
    assert [text.get_text() for text in axes.texts] == ["75%: ceiling without colour"]
    assert axes.get_ylim() == (0, 100)


def test_texts_stay_inside_the_figure_and_clear_of_each_other(figure):
    texts = [axes.yaxis.label for axes in figure.axes] + [figure.axes[-1].xaxis.label]
    texts += [text for axes in figure.axes for text in axes.texts]
    legends = [*figure.legends, figure.axes[2].get_legend()]
    boxes = [shown.get_window_extent() for shown in (*texts, *legends)]
    assert len(boxes) == 3 + 1 + 2 + 2
    for i, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def test_what_is_not_above_zero_is_left_out_of_the_logarithmic_panel_only(tmp_path):
    values = penalties()
    values["IRM"][3], values["IGA"] = -values["IRM"][3], [0.0] * len(STEPS)
    figure, _ = draw(tmp_path / "figure1", values, STEPS, SWITCH)
    linear, logarithmic = (lines_of(axes) for axes in figure.axes)
    assert np.isfinite(linear["IRM"].get_ydata()).all()
    assert np.flatnonzero(np.isnan(logarithmic["IRM"].get_ydata())).tolist() == [3]
    assert np.isnan(logarithmic["IGA"].get_ydata()).all()


@pytest.mark.parametrize("steps", [[0], [0, 10, 20]])
def test_nothing_but_zeros_can_be_drawn(tmp_path, steps):
    figure, _ = draw(tmp_path / "zeros", {"IDM": [0.0] * len(steps)}, steps, 10)
    assert list(lines_of(figure.axes[0])["IDM"].get_ydata()) == [0] * len(steps)
