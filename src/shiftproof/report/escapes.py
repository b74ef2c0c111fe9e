"""Plain text as LaTeX and Markdown print it."""

from __future__ import annotations

import re

from shiftproof.report.tables import NOTHING

_LATEX_SIGNS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "√": r"$\surd$", NOTHING: "--", "<": r"\textless{}", ">": r"\textgreater{}",
    "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "|": r"\textbar{}", "λ": r"$\lambda$",
    # At the start of a row they would be taken for options of the end of the row above.
    "[": "{[}", "*": "{*}",
    **{sign: f"$_{{{digit}}}$" for digit, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


def latex_text(text: str) -> str:
    """Return text for LaTeX.

    >>> latex_text("90% +/- 1")
    '90\\\\% $\\\\pm$ 1'
    """
    return "".join(_LATEX_SIGNS.get(sign, sign) for sign in text).replace("+/-", r"$\pm$")


def markdown_text(text: str) -> str:
    """Return text for Markdown.

    >>> markdown_text("a_b")
    'a\\\\_b'
    """
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
