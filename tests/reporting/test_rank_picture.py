"""The critical-difference diagram: what it says, and that no text covers another."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from _internals import (
    SELECTORS,
    Evaluation,
    Run,
    aggregate,
    algorithm_title,
    rank_figure,
    rank_picture,
)
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

NAMES = ("erm", "coral", "idm", "causirl-coral", "sd", "vrex", "iga-fishr", "mixup")


def swept(names, domains=12, lacking=()):
    """Both selectors on made-up runs: ranks as in the order of names, but for noise."""
    noise = np.random.default_rng(0).normal(scale=0.05, size=(len(names), domains))
    places = tuple(f"d{position}" for position in range(domains))
    runs = [
        Run(
            "wards", name, places, (at,), 0, 0, "finished",
            (Evaluation(1, (0.8 - 0.02 * order + noise[order, at],) * domains, (0.5,) * domains),),
        )
        for order, name in enumerate(names)
        for at in range(domains)
        if (name, at) not in lacking
    ]  # fmt: skip
    return [aggregate(runs, SELECTORS.get(name)()) for name in ("training-domain", "oracle")]


def test_the_picture_has_every_name_with_its_rank_and_the_tests():
    picture = rank_picture(swept(NAMES, lacking={("mixup", 3)}))
    texts = ["".join(each.itertext()).strip() for each in ElementTree.fromstring(picture).iter()
             if each.tag.endswith("text")]  # fmt: skip
    for name in NAMES[:-1]:
        assert sum(algorithm_title(name) in text.split() for text in texts) == 2, name
    assert not any("Mixup" in text.split() for text in texts)
    assert texts.count("1 algorithm without a number on each test domain: not ranked.") == 2
    # q = 2.949 of Demšar's table for seven, times √(7 · 8 / (6 · 12)).
    assert texts.count("critical difference 2.60") == 2
    assert sum("over 12 test domains" in text and "p < 0.0001" in text for text in texts) == 2
    assert picture == rank_picture(swept(NAMES, lacking={("mixup", 3)}))


@pytest.mark.parametrize("count", [3, 8, 44])
def test_no_text_covers_another(count):
    names = [NAMES[at % 8] + (f"[gradient_weight={at}]" if at > 7 else "") for at in range(count)]
    figure = rank_figure(swept(names))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        texts = [each for each in axes.findobj(Text) if each.get_text() and each.get_visible()]
        boxes = {each.get_text(): each.get_window_extent(canvas.get_renderer()) for each in texts}
        assert len(boxes) > count
        for one, other in combinations(boxes, 2):
            assert not boxes[one].overlaps(boxes[other]), (one, other)
