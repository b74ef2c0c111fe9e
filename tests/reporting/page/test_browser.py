"""The page in a browser: Debian's Chromium, driven by Playwright."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    ColumnByDomain,
    ConfidentError,
    Evidence,
    Expected,
    NumberOutputs,
    expectation_HeldOut as HeldOut,
    page_Source as Source,
    results_page,
)

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
LONG = "an_algorithm-with-a-name-that-goes-on-and-on-without-a-space"
WIDTHS = (360, 768, 1280)

# Text that is wider than its element, or lies on other text of the same picture.
CUT = """() => [...document.querySelectorAll(
    "h1,h2,h3,p,li,dt,dd,th,td,caption,summary,figcaption"
  )].filter((e) => e.checkVisibility() && e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1)
  .map((e) => `${e.tagName} ${e.textContent.slice(0, 60)}`)"""
OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg")) {
    const boxes = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]);
    const frame = document.documentElement.clientWidth;
    boxes.forEach(([one, a], i) => {
      if (a.width === 0) return;
      const out = !svg.closest(".box") && (a.left < 0 || a.right > frame);
      if (out) found.push(`out: ${one.textContent}`);
      for (const [two, b] of boxes.slice(i + 1)) {
        if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
          found.push(`${one.textContent} on ${two.textContent}`);
        }
      }
    });
  }
  return found;
}"""
COLOURS = """() => {
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (!c.endsWith(", 0)")) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const seen = new Set();
  const texts = "h1,h2,p,dt,dd,th,td,td small,a,summary,li,button,code";
  for (const e of document.querySelectorAll(texts)) {
    if (e.checkVisibility() && e.textContent.trim()) {
      seen.add(getComputedStyle(e).color + "|" + ground(e));
    }
  }
  return [...seen];
}"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(made, tmp_path_factory):
    """Two datasets, four algorithms, two trials, names that are long."""
    accuracies = {
        "erm": [(0.5, 0.6), (0.7, 0.7), (0.1, 0.2)],
        "idm": [(0.6, 0.7), (0.7, 0.6), (0.6, 0.7)],
        "irm": [(0.9, 0.9), (0.4, 0.5), (0.2, 0.2)],
        LONG: [(0.55, 0.5), (0.3, 0.4), (0.8, 0.85)],
    }
    outcomes = [
        *made.grid(accuracies, trials=2, shift=made.shift),
        *made.grid(accuracies, trials=2, dataset="photos", domains=("a" * 50, "b", "c d")),
    ]
    results = made.chosen(outcomes, "training-domain", "oracle")
    path = tmp_path_factory.mktemp("page") / "page.html"
    wards = {"east": 2.0, "a ward with a name that goes on": 1.0, "west": 1.5, "odd": -3.0}
    known = [made.held_out(wards), made.held_out(wards, 3, metric="log_loss")]
    source = Source(["runs/" + "x" * 80], held_out=known)
    path.write_text(results_page(outcomes, results, "erm", source))
    return path


@pytest.fixture(scope="module")
def close(made, tmp_path_factory):
    """Runs by themselves that differ by little: numbers on axes have more digits."""
    outcomes = made.grid(
        {"erm": [0.5, 0.6], "coral": [0.4985, 0.6022]}, standalone=True, shift=made.shift
    )
    path = tmp_path_factory.mktemp("close") / "page.html"
    path.write_text(results_page(outcomes, made.chosen(outcomes), "erm"))
    return path


@pytest.fixture(scope="module")
def answer(made, tmp_path_factory):
    """One model on six wards, one with a long name, with all that a study collects."""
    wards = dict.fromkeys(("east", "a ward with a name that goes on and on", *"abcd"), 1.5)
    known = replace(made.held_out(wards), columns={"domain": "ward"})
    names = list(wards)
    evidence = Evidence(
        "ward", "state", 480, 3, 9.0, dict.fromkeys(names, 0.25),
        [ConfidentError(name, 7, "a", "b", 0.9, [("x" * 40, "1")] * 20) for name in names],
        [
            ColumnByDomain(
                "pressure",
                dict.fromkeys(names, (1.5, 2e3, 3e3, 4e3, 5e4)),
                dict.fromkeys(names, 0.5),
            )
        ]
        * 2,
    )  # fmt: skip
    outcomes = made.grid({"erm": [0.5, 0.6, 0.7]}, standalone=True)
    source = Source(held_out=[known], evidence=evidence, baselines={"Forest": known.expected})
    path = tmp_path_factory.mktemp("answer") / "page.html"
    path.write_text(results_page(outcomes, made.chosen(outcomes), "erm", source))
    return path


@pytest.fixture(scope="module")
def prices(made, tmp_path_factory):
    """One model of large numbers in six wards, one with a long name."""
    rng = np.random.default_rng(0)
    names = ("east", "a ward with a name that goes on and on", *"abcd")
    outputs = {}
    for place, name in enumerate(names):
        y = 2e6 + 5e5 * rng.standard_normal(80)
        outputs[name] = NumberOutputs(y + 2e4 * place * rng.standard_normal(80), y, np.arange(80))
    column = ColumnByDomain(
        "price", dict.fromkeys(names, (1.5, 2e6, 3e6, 4e6, 5e6)), dict.fromkeys(names, 0.5)
    )
    evidence = Evidence("ward", "price", 480, 3, 9.0, dict.fromkeys(names, 0.25), (), [column])
    outcomes = made.grid({"erm": [0.5, 0.6, 0.7]}, standalone=True)
    known = HeldOut("erm on prices", Expected(outputs, "mae"))
    baselines = {"Ridge": known.expected, "Random forest": known.expected}
    source = Source(held_out=[known], evidence=evidence, baselines=baselines)
    path = tmp_path_factory.mktemp("prices") / "page.html"
    path.write_text(results_page(outcomes, made.chosen(outcomes), "erm", source))
    return path


@pytest.fixture
def visit(browser, file):
    """Open the page; whatever it says or asks for is collected."""
    contexts = []

    def opened(width=1280, unfold=False, path=file, **settings):
        context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        context.route(
            re.compile("^https?:"), lambda route: (page.asked.append(route), route.abort())
        )
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        if unfold:
            page.eval_on_selector_all("details", "all => all.forEach((fold) => fold.open = true)")
        return page

    yield opened
    for context in contexts:
        context.close()


def test_it_says_nothing_and_asks_for_nothing(visit, file):
    page = visit(unfold=True)
    page.wait_for_timeout(100)
    assert page.said == []
    assert page.asked == [file.as_uri()]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_is_cut_or_overlaps(visit, width):
    page = visit(width, unfold=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPS) == []
    # The checks see what they look for.
    page.eval_on_selector(
        "h1", "e => { e.style.whiteSpace = 'nowrap'; e.style.fontSize = '200px' }"
    )
    assert page.evaluate(CUT)
    page.eval_on_selector_all("svg text", "all => all.forEach((t) => t.setAttribute('x', 0))")
    assert page.evaluate(OVERLAPS)


@pytest.mark.parametrize("width", WIDTHS)
def test_long_numbers_on_an_axis_do_not_overlap_either(visit, close, width):
    page = visit(width, path=close)
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_one_model_fits_every_screen(visit, answer, width):
    page = visit(width, unfold=True, path=answer)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPS) == []
    assert page.said == []
    assert page.asked == [answer.as_uri()]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_numbers_fits_every_screen(visit, prices, width):
    page = visit(width, unfold=True, path=prices)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAPS) == []
    assert page.said == []


def test_on_a_phone_the_forest_plot_needs_no_scrolling(visit, answer):
    page = visit(390, path=answer)
    wide, there = page.eval_on_selector("#expect .box", "e => [e.scrollWidth, e.clientWidth]")
    assert wide <= there
    assert page.locator("#expect th.wide").is_hidden()
    assert visit(path=answer).locator("#expect th.wide").is_visible()


def test_tips_do_not_cover_what_they_explain(visit, answer):
    page = visit(path=answer)
    tip = page.locator("#tip")
    for where in ("#expect td[data-t]", "#shift td[data-t]", "#reliability .target"):
        target = page.locator(where).first
        target.hover()
        tip.wait_for(state="visible")
        own, said = target.bounding_box(), tip.bounding_box()
        apart = said["y"] + said["height"] <= own["y"] or said["y"] >= own["y"] + own["height"]
        assert apart, where


def test_outlines_are_inside_boxes_that_would_cut_them(visit, answer):
    page = visit(path=answer)
    page.locator("#card").evaluate("e => { e.tabIndex = -1; e.focus() }")
    page.keyboard.press("Tab")
    inside = page.evaluate(
        """() => {
          const own = document.activeElement.getBoundingClientRect();
          const box = document.activeElement.closest(".box").getBoundingClientRect();
          const style = getComputedStyle(document.activeElement);
          const reach = parseFloat(style.outlineOffset) + parseFloat(style.outlineWidth);
          return own.left - reach >= box.left && own.top - reach >= box.top;
        }"""
    )
    assert inside


def test_on_a_phone_the_average_stays_visible(visit):
    page = visit(360)
    table = page.locator("#accuracy table").first
    last = table.locator("tbody tr").first.locator("td").last
    box = last.bounding_box()
    assert box["x"] + box["width"] <= 360
    assert last.inner_text() == table.locator("tbody tr td:last-child").first.inner_text()


def column(table, index):
    return table.locator("tbody tr").evaluate_all(
        f"rows => rows.map(r => r.cells[{index}].innerText)"
    )


def numbers(table, index):
    return [float(text.split()[0].replace("−", "-")) for text in column(table, index)]


def test_headers_sort_and_say_so(visit):
    page = visit()
    table = page.locator("#accuracy table").first
    headers = table.locator("thead th")
    last = headers.count() - 1
    assert headers.nth(last).get_attribute("aria-sort") == "descending"
    assert numbers(table, last) == sorted(numbers(table, last), reverse=True)
    button = headers.nth(1).locator("button")
    button.click()
    assert headers.nth(1).get_attribute("aria-sort") == "descending"
    assert headers.nth(last).get_attribute("aria-sort") is None
    assert numbers(table, 1) == sorted(numbers(table, 1), reverse=True)
    first = column(table, 0)
    button.click()
    assert headers.nth(1).get_attribute("aria-sort") == "ascending"
    assert numbers(table, 1) == sorted(numbers(table, 1))
    assert column(table, 0) != first
    assert "ascending" in page.locator("#said").inner_text()
    headers.nth(0).locator("button").click()
    assert headers.nth(0).get_attribute("aria-sort") == "ascending"
    assert column(table, 0) == sorted(column(table, 0), key=str.lower)
    ranks = page.locator("#ranks table").first.locator("thead th")
    assert ranks.nth(1).get_attribute("aria-sort") == "ascending"


def test_all_of_it_by_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.evaluate("document.querySelector('main svg').closest('section').id") == "expect"
    page.locator("#accuracy").evaluate("e => { e.tabIndex = -1; e.focus() }")
    page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    table = page.locator("#accuracy table").first
    assert table.locator("thead th").first.get_attribute("aria-sort") == "ascending"
    for _ in range(table.locator("thead button").count()):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "TD"
    assert page.evaluate(outline) == "solid"
    tip = page.locator("#tip")
    tip.wait_for(state="visible")
    before = tip.inner_text()
    assert re.search(r"trial 0: [\d.]+%\ntrial 1: [\d.]+%", before)
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.keyboard.press("ArrowDown")
    assert tip.inner_text() != before
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "TD"


def test_pictures_say_what_they_show(visit):
    page = visit()
    tip = page.locator("#tip")
    page.locator("#expect td[data-t]").first.hover()
    tip.wait_for(state="visible")
    assert re.fullmatch(r"east: \d+\.\d \(\d+\.\d–\d+\.\d\)\n80 rows", tip.inner_text())
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")
    page.locator("#expect .point .target").nth(2).hover()
    tip.wait_for(state="visible")
    assert "probability 0." in tip.inner_text()
    # Focus scrolls the page: a mouse that rests on a picture would then show a tip of its own.
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")
    page.locator("#expect table td[data-t]").first.focus()
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    assert tip.inner_text().startswith("The next domain is between")


def test_sorting_leaves_the_mean_and_the_next_domain_below(visit):
    page = visit()
    table = page.locator("#expect table").first
    table.locator("thead button").nth(1).click()
    values = numbers(table, 2)
    assert values == sorted(values, reverse=True)
    assert table.locator("tfoot th").all_inner_texts() == ["typical domain", "next domain"]


def test_hover_and_touch_show_runs_and_seeds(visit):
    page = visit(360, unfold=True, has_touch=True)
    tip = page.locator("#tip")
    cell = page.locator("#accuracy details td[data-d]").first
    cell.hover()
    tip.wait_for(state="visible")
    expected = r"trial 0: [\d.]+% at step 101, hyper-parameter seed 0\ntrial 1: .*"
    assert re.fullmatch(expected, tip.inner_text())
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    page.mouse.move(1, 1)
    tip.wait_for(state="hidden")
    page.locator("#domains td[data-d]").nth(3).tap()
    tip.wait_for(state="visible")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_what_is_seen_has_enough_contrast(made, visit, mode):
    page = visit(unfold=True, color_scheme=mode)
    pairs = page.evaluate(COLOURS)
    assert len(pairs) > 6
    for pair in pairs:
        text, ground = ("#" + "".join(f"{int(c):02x}" for c in re.findall(r"\d+", each)[:3])
                        for each in pair.split("|"))  # fmt: skip
        assert made.contrast(text, ground) >= 4.5, pair
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (mode == "light")


def test_without_javascript_everything_can_be_read(visit):
    page = visit(360, java_script_enabled=False)
    assert page.locator("button").count() == 0  # nothing that would do nothing
    assert page.locator("#accuracy table").first.is_visible()
    assert page.locator("#accuracy thead th[aria-sort]").count() > 0
    fold = page.locator("details").first
    assert not fold.locator("table").is_visible()
    fold.locator("summary").click()
    assert fold.locator("table").is_visible()
    assert page.locator("#tip").is_hidden()


def test_motion_is_only_for_those_who_like_it(visit):
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    assert visit(reduced_motion="reduce").evaluate(behaviour) == "auto"
    assert visit(reduced_motion="no-preference").evaluate(behaviour) == "smooth"


def test_what_is_folded_is_printed(visit):
    page = visit(color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
