"""The documentation builds as a site without a warning, and the site needs no other host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import shiftproof

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
# What a browser fetches by itself, by tag and attribute; links that a reader follows are not.
FETCHED = {
    ("script", "src"), ("link", "href"), ("img", "src"), ("img", "srcset"), ("iframe", "src"),
    ("source", "src"), ("video", "src"), ("audio", "src"), ("object", "data"), ("embed", "src"),
}  # fmt: skip
# The theme's script can fetch these two: in browsers of before 2020, and for diagrams in mermaid,
# of which no page has any.  Which version of mermaid depends on that of the theme.
DORMANT = {
    "https://unpkg.com/resize-observer-polyfill",
    "https://unpkg.com/mermaid@VERSION/dist/mermaid.min.js",
}
ROLE = re.compile(r":(?:\w+:)?\w+:`|^\s*\.\. \w+::|::\s*$", re.MULTILINE)
FOREIGN = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Page(HTMLParser):
    """What a page has its reader's browser fetch, and the styles and scripts written into it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.written = ""
        self._inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = tag
        self.classes.update((given.get("class") or "").split())
        for name, value in given.items():
            if (tag, name) in FETCHED and value:
                self.fetched.append(value)

    def handle_data(self, data: str) -> None:
        if self._inside in ("style", "script"):
            self.written += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def test_every_page_of_the_folder_is_a_page_of_the_site(site: Path) -> None:
    pages = {path.with_suffix("").name for path in (ROOT / "docs").glob("*.md")}
    assert len(pages) > 8
    for name in pages:
        assert (site / f"{name}.html").exists()
    assert (site / "results/lite.html").exists()
    assert "results/lite.html" in (site / "recorded.html").read_text(encoding="utf-8")


def test_the_pages_are_few_and_short() -> None:
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) <= 20
    assert sum(len(page.split()) for page in pages) <= 28_000


def test_no_page_shows_raw_markup_of_docstrings(site: Path) -> None:
    """Roles and directives of reStructuredText, and references that lead nowhere."""
    for path in site.rglob("*.html"):
        text = re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8"))
        assert not ROLE.findall(text), path.name


def test_raw_markup_would_be_seen() -> None:
    for text in (":class:`Batch`", "see :py:func:`pdm`", ":math:`x`", ".. note:: this", "::\n\n"):
        assert ROLE.findall(text), text
    assert not ROLE.findall("a: b, c::d, times 10:30, {key: value}")


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "reference.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h3[^>]*doc-heading[^>]*>(.*?)</h3>", page, re.DOTALL)
    shown = {re.sub(r"<[^>]+>", "", heading).split()[0] for heading in headings}
    public = {f"shiftproof.{name}" for name in shiftproof.__all__} - {"shiftproof.__version__"}
    assert public <= shown, public - shown


def test_no_page_fetches_from_another_host(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html")}
    assert any(page.fetched for page in pages.values())
    for path, page in pages.items():
        foreign = [address for address in page.fetched if FOREIGN.match(address)]
        assert not foreign, (path.name, foreign)
        assert not re.findall(r"url\(\s*['\"]?(?:https?:)?//", page.written), path.name
        assert not re.findall(r"@import", page.written), path.name
        assert "mermaid" not in page.classes, path.name


def test_no_style_or_script_fetches_from_another_host(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    for path in styles:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", text), path.name
    found = set()
    for path in site.rglob("*.js"):
        found.update(re.findall(r"""["'`](https?://[^"'`\s]+)["'`]""", path.read_text("utf-8")))
    loaded = {a for a in found if re.search(r"unpkg|cdn|\.(js|css|woff2?|ttf)$|fonts\.", a)}
    assert {re.sub(r"@[\d.]+/", "@VERSION/", address) for address in loaded} <= DORMANT


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
@pytest.mark.parametrize("page", ["index.html", "results/lite.html"])
def test_the_search_works_from_disk_without_a_network(site: Path, page: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_context(offline=True).new_page()
        opened.goto((site / page).as_uri())
        opened.locator("[data-md-component=search-query]").first.click()
        opened.keyboard.type("sample_weight", delay=20)
        found = opened.locator(".md-search-result__item a")
        found.first.wait_for(timeout=60_000)
        pages = {str(link.get_attribute("href")) for link in found.all()}
        browser.close()
    assert any("scikit-learn.html" in address for address in pages)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
def test_no_block_of_code_is_cut(site: Path) -> None:
    """On a phone too, lines of code wrap: none is wider than its block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in (1280, 390):
            opened = browser.new_page(viewport={"width": width, "height": 900})
            for page in ("index", "study", "your-data", "compare-methods", "commands"):
                opened.goto((site / f"{page}.html").as_uri())
                cut = opened.eval_on_selector_all(
                    ".md-typeset pre > code",
                    "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).length",
                )
                assert cut == 0, (page, width)
        browser.close()


def test_a_fetch_from_another_host_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        '<link rel="stylesheet" href="//fonts.example/a.css"><script src="https://x.example/a.js">'
        '</script><a href="https://y.example">y</a><style>@import "https://z.example";</style>'
    )
    page = Page(path)
    assert [bool(FOREIGN.match(address)) for address in page.fetched] == [True, True]
    assert "@import" in page.written
