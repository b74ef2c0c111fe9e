"""Parts of a Markdown page that are made from records; the rest is written by hand.

A part stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MARKED = re.compile(r"(<!-- (?P<name>[\w.-]+) -->\n).*?(<!-- /(?P=name) -->)", re.DOTALL)


def renewed(page: str, made: Callable[[str], str]) -> str:
    r"""Return the page with every marked part replaced by what `made` returns for its name.

    >>> renewed("by hand\n<!-- a -->\nold\n<!-- /a -->\n", str.upper)
    'by hand\n<!-- a -->\n\nA\n\n<!-- /a -->\n'
    """
    return MARKED.sub(lambda part: f"{part[1]}\n{made(part['name']).strip()}\n\n{part[3]}", page)
