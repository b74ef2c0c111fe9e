"""A diagnosis as text and as a picture, from values made by hand."""

import io
from itertools import combinations, pairwise

import matplotlib.image
import numpy as np
import pytest
from _internals import (
    MOST_LINES,
    ColumnTrial,
    DataError,
    Diagnosis,
    Drop,
    InvalidValue,
    Loss,
    ModelShift,
    MovedClass,
    MovedFeature,
    Pair,
    Points,
    Prediction,
    advise,
    check_picture,
    diagnosis_About as About,
    diagnosis_blocks,
    diagnosis_html,
    diagnosis_json,
    diagnosis_picture,
    diagnosis_text,
    drops_table,
    reporting_pictures as drawing,
)

from shiftproof.information import Estimate, Shift

LONG = "a hospital whose name goes on and on and on"


def estimate(symbol, value, p=0.005):
    return Estimate(
        symbol, value, (max(value - 0.01, 0), value + 0.01), 0.95, p, "a method", (), 90
    )


def shift(x="X"):
    return Shift(
        covariate=estimate(f"I({x};D)", 0.31),
        label=estimate("I(Y;D)", 0.0, 0.7),
        concept=estimate(f"I(Y;D|{x})", 0.123),
        joint=estimate(f"I({x},Y;D)", 0.433),
        within_label=estimate(f"I({x};D|Y)", 0.433),
    )


def points(value):
    return Points(value, (value - 1, value + 1))


def drop(domain, lost):
    parts = {"label_shares": 1.0, "unseen": lost - 3, "inputs": 0.5, "meaning": 1.5}
    loss = Loss(70.0, 70 + lost, points(lost), **{k: points(v) for k, v in parts.items()})
    return Drop(domain, 60, loss, loss, 0.3, ("class 0", 4.0))


def made(domains=("north", LONG, "west"), classes=2, features=3, model=None, left_out=0):
    pairs = [
        Pair(a, b, 0.5 + 0.01 * i, 0.9 - 0.01 * i, 0.1, 0.2, 0.05, 0.07)
        for i, (a, b) in enumerate(combinations(domains, 2))
    ]
    moved = [
        MovedFeature(f"feature {i}", 1 / (i + 1), 2 / (i + 1), pairs_of(domains), 0.01 + 0.2 * i)
        for i in range(features)
    ]
    shares = np.random.default_rng(0).dirichlet(np.ones(classes), len(domains)).T
    kinds = [
        MovedClass(f"class {i}", tuple(shares[i]), 0.1 if i else None, 0.2 if i else None)
        for i in range(classes)
    ]
    return Diagnosis(
        domains=tuple(domains),
        classes=tuple(kind.name for kind in kinds),
        counts=((30,) * classes,) * len(domains),
        left_out=left_out,
        level=0.95,
        shift=shift(),
        domain_entropy=float(np.log(len(domains))),
        prediction=Prediction(0.7, 0.8, 0.5, 0.6, 0.6),
        pairs=tuple(pairs),
        features=tuple(moved),
        moved_classes=tuple(kinds),
        drops=tuple(drop(name, 9.0 - i) for i, name in enumerate(domains)),
        trials=(ColumnTrial("feature 0", "drop", points(2.0)),),
        model=model,
    )


def pairs_of(domains):
    return (domains[0], domains[1])


def text_of(diagnosis, width=100, details=True, **about):
    advice, told = advise(diagnosis), About("some data", "3 domains", **about)
    return diagnosis_text(diagnosis, advice, told, width, details=details)


def row(text, start):
    return next(line for line in text.splitlines() if line.strip().startswith(start)).split()


def test_the_text_holds_amounts_reading_places_and_commands():
    text = text_of(made(), notes=["a remark"], command="shiftproof train X", beside="shiftproof Y")
    assert text.startswith("some data: 3 domains\nnote: a remark\n")
    assert row(text, "covariate shift")[2:] == ["I(X;D)", "0.3100", "0.3000–0.3200", "0.005"]
    assert row(text, "label shift")[-1] == "0.700"
    assert "all domains have the same weight. No amount exceeds 1.10" in " ".join(text.split())
    assert "- concept shift: The relation between input and label differs" in text
    assert "\n    shiftproof train X\n" in text
    assert "\n    shiftproof Y\n" in text
    assert row(text, "class 0")[-1] == "–"
    assert "1 of 3 differ significantly" in text
    assert text.index("What to do") < text.index("What shifts")
    assert "lower bounds: what these classifiers detect" in text


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("count", [2, 7])
def test_the_report_without_details_has_25_lines_and_the_advice_first(width, count):
    diagnosis = made([f"{LONG} {i}" for i in range(count)])
    text = text_of(
        diagnosis, width, details=False, notes=["long " * 60] * 3, command="shiftproof train X"
    )
    assert len(text.splitlines()) <= MOST_LINES == 25
    first = text.index("What to do")
    assert first < text.index("What shifts")
    assert text.index("- best: ") < text.index("- compare with idm-auto: ")
    assert "\n    shiftproof train X\n" in text
    if width == 100:
        concept = "found: the domain explains 20% of the label's entropy given the inputs"
        assert f"  concept shift    {concept}\n" in text
        assert "`details=True`" in text


def test_the_points_that_are_lost_come_largest_first():
    text = text_of(made(("north", "south", "west")), details=False)
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Accuracy lost")) + 2
    assert lines[start].split() == [
        "north", "70.0", "9.0", "(8.0", "to", "10.0)", "0.5", "6.0", "1.5", "1.0",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[start : start + 3]] == ["north", "south", "west"]
    full = text_of(made(("north", "south", "west")))
    lost = full[full.index("Accuracy lost") :]
    assert row(lost, "north")[-4:] == ["9.0", "class", "0", "(4)"]
    gain = "'feature 0' left out: mean gain of held-out domains 2.0 (1.0 to 3.0) points"
    assert gain in " ".join(full.split())


def test_the_page_has_the_points_that_are_lost():
    diagnosis = made(("north", "south", "west"))
    found = diagnosis_json(diagnosis, advise(diagnosis), About("some data", "3 domains"))
    table = drops_table(found)
    lost = table.rows[0].cells[1]
    assert (lost.text, lost.interval) == ("9.0", "8.0 to 10.0")
    assert drops_table({**found, "drops": []}) is None
    assert table in [block.value for block in diagnosis_blocks(found)]


def test_what_differs_most_comes_first():
    text = text_of(made(classes=14, features=20, domains=[f"d{i}" for i in range(7)]))
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Pairs of domains")) + 2
    told = [float(line.split()[-3]) for line in lines[start : start + 12]]
    assert told == sorted(told, reverse=True)
    for left_out in ("12 of 21 pairs", "12 of 20 features", "12 of 14 classes", "6 domains"):
        assert f"The first {left_out}." in text


def test_samples_left_out_are_told():
    text = " ".join(text_of(made(left_out=1000)).split())
    assert "Measured on 180 of 1,180 samples (60 per domain)." in text
    widest = max(np.ptp(each.interval) / 2 for each in made().shift)
    assert (
        f"The widest 95% interval is ±{widest:.2g} nats. A higher `most` uses more samples." in text
    )
    assert "180 of 1,180 samples" in text_of(made(left_out=1000), details=False)
    assert "Measured on" not in text_of(made(), details=False)


def test_a_model_stands_beside_the_inputs():
    model = ModelShift("erm", shift("R"), estimate("I(L;D)", 0.05), (0.1,) * 3, (0.9,) * 3)
    text = text_of(made(model=model))
    assert row(text, "concept shift, inputs")[3:5] == ["I(Y;D|X)", "0.1230"]
    assert row(text, "concept shift, representation")[3:5] == ["I(Y;D|R)", "0.1230"]
    assert row(text, "risks") == ["risks", "I(L;D)", "0.0500", "0.0400–0.0600", "0.005"]


@pytest.mark.parametrize("width", [60, 100])
def test_prose_keeps_to_the_width(width):
    text = text_of(made(), width, notes=["long " * 40])
    prose = [line for line in text.splitlines() if line.startswith(("-", "note"))]
    assert max(map(len, prose)) <= width
    assert f"{LONG[:20]}…{LONG[-19:]}" in text


def test_html_holds_amounts_words_and_advice_and_nothing_unescaped():
    hostile = "<script>alert('x')</script> & co"
    diagnosis = made(domains=(hostile, "south", "west"))
    about = About(hostile, "3 domains", notes=[f"note of {hostile}"])
    values = diagnosis_json(diagnosis, advise(diagnosis), about)
    found = diagnosis_html(about.title, values)
    assert ">I(Y;D|X)</td><td>0.1230</td><td>0.1130–0.1330</td><td>0.005</td>" in found
    assert "<dt>Concept shift</dt>" in found
    assert "<dd>The relation between input and label differs" in found
    assert "<h3>What to do</h3>" in found
    assert "<dd>The default for tables" in found
    assert "<script" not in found
    assert found.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; co") >= 2


def test_json_holds_the_commands_if_there_are_any():
    diagnosis = made()
    advice = advise(diagnosis, ("west",))
    about = About("some data", "3 domains", "data.csv", "3 columns", ["a note"], "shiftproof train")
    found = diagnosis_json(diagnosis, advice, about)
    assert (found["data"], found["inputs"], found["notes"]) == ("data.csv", "3 columns", ["a note"])
    assert found["advice"]["command"] == "shiftproof train"
    assert found["advice"]["compare_with"] is None
    assert found["advice"]["test_domains"] == ("west",)
    assert found["advice"]["choice"]["algorithm"] == "best"
    assert found["advice"]["beside"]["algorithm"] == "idm-auto"
    assert found["drops"][0]["accuracy"]["lost"]["value"] == 9


def test_a_picture_that_cannot_be_written_is_refused(tmp_path):
    check_picture(tmp_path / "shift.PNG")
    with pytest.raises(InvalidValue, match=r"`picture` writes a PNG file; .*shift\.pdf"):
        check_picture(tmp_path / "shift.pdf")
    with pytest.raises(DataError, match="there is no folder"):
        check_picture(tmp_path / "no" / "shift.png")


def pixels(data):
    picture = matplotlib.image.imread(io.BytesIO(data))
    assert picture[..., :3].std() > 0.05
    return picture.shape[:2]


def test_a_picture_of_few_and_of_many(monkeypatch):
    figures = []
    real = drawing.Figure
    monkeypatch.setattr(drawing, "Figure", lambda **f: figures.append(real(**f)) or figures[-1])
    small = pixels(diagnosis_picture(made(), "patients"))
    large = pixels(diagnosis_picture(made([f"{LONG} {i}" for i in range(21)], 30, 400), "t" * 200))
    assert small[0] < large[0] < 1500
    assert small[1] < large[1] < 4500
    few, many = (figure.axes for figure in figures)
    # Numbers are written into tables that have room for them: all pairs twice, and all shares.
    assert sorted(t.get_text() for t in few[0].texts) == ["50", "51", "52", "88", "89", "90"]
    assert [t.get_text() for t in few[1].get_yticklabels()] == [f"feature {i}" for i in (2, 1, 0)]
    assert not many[0].texts
    assert len(many[1].lines[0].get_xdata()) == 400
    assert "(12 of 30)" in many[2].get_title()
    for figure in figures:
        for axes in figure.axes:
            assert all(len(label.get_text()) <= 22 for label in axes.get_yticklabels())


def test_nothing_overlaps(monkeypatch):
    """Tick labels stay inside the figure and clear of each other and of the neighbouring panel."""
    figures = []
    real = drawing.Figure
    monkeypatch.setattr(drawing, "Figure", lambda **f: figures.append(real(**f)) or figures[-1])
    diagnosis_picture(made([f"{LONG} {i}" for i in range(5)], 10, 13), "patients")
    (figure,) = figures
    for axes in figure.axes:
        labels = [t.get_window_extent() for t in axes.get_yticklabels() if t.get_text()]
        assert all(box.x0 >= 0 for box in labels)
        ordered = sorted(labels, key=lambda box: box.y0)
        assert all(a.y1 <= b.y0 + 1 for a, b in pairwise(ordered))
        others = [other.get_window_extent() for other in figure.axes if other is not axes]
        assert not any(box.overlaps(other) for box in labels for other in others)
