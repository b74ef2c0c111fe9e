"""Take the pictures of the results page that the documentation shows.

    python tools/screenshots.py                          # the recorded sweep results/lite.jsonl.gz
    python tools/screenshots.py hospitals STUDY/report.html    # the page of a study, and its name

They go to docs/screenshots and need Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
RUNS = Path("results/lite.jsonl.gz")
OUT = ROOT / "docs/screenshots"
MOST_BYTES = 250_000


class Shot(NamedTuple):
    """A screenshot: its width, height, colour scheme and pixel density."""

    name: str
    width: int
    height: int
    scheme: str
    scale: float
    # The element at the top of the screenshot.
    start: str = "body"


# For a study: the first screen, the section on what differs in dark mode, and a phone.
STUDY = (
    Shot("study-{}-light", 1120, 1352, "light", 1.0),
    Shot("study-{}-dark", 1120, 1000, "dark", 1.0, "#shift"),
    Shot("study-{}-phone", 390, 1290, "light", 2.0),
)
SHOTS = (
    Shot("page-light", 1120, 1270, "light", 1.0),
    Shot("page-dark", 1120, 1200, "dark", 1.0, "#domains"),
    Shot("page-phone", 360, 1240, "light", 2.0),
)


def main() -> None:
    """Write the page to a temporary folder, and take its screenshots."""
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("there is no chromium on this machine")
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        if len(sys.argv) == 3:
            name, page = sys.argv[1], Path(sys.argv[2]).resolve()
            shots = [shot._replace(name=shot.name.format(name)) for shot in STUDY]
        else:
            page, shots = Path(folder) / "page.html", list(SHOTS)
            made = ["report", str(RUNS), "--format", "html", "--out", str(page)]
            subprocess.run([sys.executable, "-m", "shiftproof", *made], cwd=ROOT, check=True)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for shot in shots:
            context = chromium.new_context(
                viewport={"width": shot.width, "height": shot.height},
                color_scheme=shot.scheme,  # type: ignore[arg-type]
                device_scale_factor=shot.scale,
                reduced_motion="reduce",
            )
            tab = context.new_page()
            tab.goto(page.as_uri())
            take(tab, shot)
            context.close()
        chromium.close()


def take(tab: Page, shot: Shot) -> None:
    """Write one screenshot with few colours, which is enough for text and flat areas."""
    path = OUT / f"{shot.name}.png"
    top = tab.evaluate("s => document.querySelector(s).getBoundingClientRect().top", shot.start)
    area = {"x": 0, "y": top + 1, "width": shot.width, "height": shot.height}
    tab.screenshot(path=path, full_page=True, clip=area)  # type: ignore[arg-type]
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{path.name} is larger than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
