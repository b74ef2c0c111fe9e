"""A hook of mkdocs: the recorded results are pages of the site, though they live outside docs/.

In the repository, a page of ``docs/`` links to ``../results/lite.md``, and so that link works
there.  In the site the same file is ``results/lite.md``, beside the pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

RESULTS = Path(__file__).parents[1] / "results"


def on_files(files: Files, config: Any) -> Files:
    """Add every file of ``results/`` to the site."""
    for path in sorted(path for path in RESULTS.rglob("*") if path.is_file()):
        files.append(
            File.generated(
                config,
                f"results/{path.relative_to(RESULTS).as_posix()}",
                abs_src_path=str(path),
                inclusion=InclusionLevel.NOT_IN_NAV,
            )
        )
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point links between pages and results at their location in the site."""
    return markdown.replace("](../results/", "](results/").replace("](../docs/", "](../")
