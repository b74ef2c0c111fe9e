"""Draw the pictures of docs/gallery.md: run its blocks, and keep what they save.

python tools/gallery.py
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gallery.md"
OUT = ROOT / "docs" / "screenshots"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Run the blocks of the page in an empty folder, and copy its pictures with fewer colours."""
    os.environ["MPLBACKEND"] = "agg"
    with tempfile.TemporaryDirectory() as name:
        for language, text in FENCE.findall(PAGE.read_text("utf-8")):
            if language == "python":
                subprocess.run([sys.executable, "-c", text], cwd=name, check=True)
            for line in text.splitlines() if language == "console" else ():
                if line.startswith("$ shiftproof "):
                    words = shlex.split(line)[2:]
                    subprocess.run(
                        [sys.executable, "-m", "shiftproof", *words], cwd=name, check=True
                    )
        for picture in sorted(Path(name).glob("gallery-*.png")):
            with Image.open(picture) as drawn:
                few = drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE)
            few.save(OUT / picture.name, optimize=True)
            print(picture.name, (OUT / picture.name).stat().st_size)


if __name__ == "__main__":
    main()
