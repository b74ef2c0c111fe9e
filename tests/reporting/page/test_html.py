"""The page as text: safe, self-contained, well-formed, and readable in both modes."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from _internals import SELECTORS, aggregate, page_Source as Source, read_sweep, results_page

LITE = Path(__file__).parents[3] / "results/lite.jsonl.gz"
EVIL = '<script>alert("&")</script>'
VOID = {"meta", "link", "br", "wbr", "use", "line", "rect", "circle", "path"}


class Reader(HTMLParser):
    """Elements in order, with attributes and text; what is opened must be closed."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, *tags):
        return [attrs for tag, attrs in self.elements if tag in tags]


@pytest.fixture(scope="module")
def page(made):
    outcomes = made.grid(
        {"erm": [(0.5, 0.6)] * 3, "idm": [(0.6, 0.5)] * 3, "irm": [(0.4, 0.4)] * 3},
        trials=2, shift=made.shift,
    )  # fmt: skip
    results = made.chosen(outcomes, "training-domain", "oracle")
    known = [made.held_out({"east": 2.0, "north": 1.0, "west": -2.0})]
    source = Source(["runs"], "shiftproof report runs", held_out=known)
    return results_page(outcomes, results, "erm", source)


def test_names_of_users_are_text_and_nothing_else(made):
    outcomes = made.grid(
        {EVIL: [0.5, 0.6], "erm": [0.6, 0.5]}, dataset=EVIL, domains=(EVIL, "b" * 60, "c")
    )
    known = [made.held_out({EVIL: 1.0, "b": 2.0, "c": 0.5})]
    source = Source([EVIL], EVIL, [{EVIL: EVIL}], remark=EVIL, held_out=known)
    reader = Reader(results_page(outcomes, made.chosen(outcomes), "erm", source))
    assert len(reader.all("script")) == 1
    assert sum(EVIL in text for _, text in reader.texts) > 5


def test_a_policy_forbids_the_network_and_lets_our_own_script_and_style_alone(page):
    (policy,) = [m["content"] for m in Reader(page).all("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    reader = Reader(page)
    assert not any("style" in attrs for _, attrs in reader.elements)
    assert not any(name.startswith("on") for _, attrs in reader.elements for name in attrs)
    links = [a.get("href") or a.get("src") or "" for _, a in reader.elements]
    assert all(link[:1] in ("", "#") or link == "data:," for link in links)


def test_landmarks_headings_captions_and_references(page):
    reader = Reader(page)
    assert reader.all("html") == [{"lang": "en"}]
    assert all(len(reader.all(tag)) == 1 for tag in ("main", "header", "footer", "nav", "h1"))
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in reader.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attrs.get(name, ids[0]) in ids
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
    assert len(reader.all("table")) == len(reader.all("caption")) > 5
    assert all("scope" in attrs for attrs in reader.all("th"))
    assert all("aria-label" in a or a.get("aria-hidden") == "true" for a in reader.all("svg"))


def test_the_same_runs_make_the_same_bytes(made, page):
    outcomes = made.grid({"erm": [0.5], "idm": [0.6]})
    assert results_page(outcomes, made.chosen(outcomes)) == results_page(
        outcomes, made.chosen(outcomes)
    )
    assert str(Path.home()) not in page


@pytest.mark.skipif(not LITE.exists(), reason="the recorded sweep is not in this tree")
def test_a_sweep_of_1479_runs_fits_in_300_kilobytes():
    outcomes = read_sweep(LITE)
    names = ("training-domain", "oracle")
    results = [aggregate(outcomes, SELECTORS.get(name)()) for name in names]
    html = results_page(outcomes, results)
    Reader(html)
    assert "29 algorithms on 4 datasets" in html
    assert len(html.encode()) < 300_000


# --- colours ----------------------------------------------------------------------------------


def colours(block):
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))


def test_the_formula_of_contrast(made):
    assert made.contrast("#000", "#ffffff") == pytest.approx(21)
    assert made.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("mode", ["light", "dark", "print"])
def test_text_has_the_contrast_of_wcag_aa(made, mode):
    css = (files("shiftproof.reporting.page") / "templates/page.css").read_text()
    light, dark, print_ = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    found = colours(light) | colours({"light": light, "dark": dark, "print": print_}[mode])
    for ground in ("bg", "wash"):
        for text in ("ink", "soft", "accent"):
            assert made.contrast(found[text], found[ground]) >= 4.5, (text, ground)
    for level in "1234":
        for side in "pn":
            assert made.contrast(found["ink"], found[side + level]) >= 4.5, side + level
    for line in ("test", "validation", "training", "extra", "accent"):
        for ground in ("bg", "band"):
            assert made.contrast(found[line], found[ground]) >= 3, line
    assert made.contrast(found["rule"], found["bg"]) >= 3
