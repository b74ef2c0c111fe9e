"""Numbers and names in messages, and names that may be two spellings of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

MINUS = "\N{MINUS SIGN}"


def plural(noun: str, count: int) -> str:
    """Return a noun in the plural, unless the count is 1.

    >>> plural("run", 1), plural("class", 2), plural("pair of files", 3)
    ('run', 'classes', 'pairs of files')
    """
    head, of, tail = noun.partition(" of ")
    ending = "" if count == 1 else "es" if head.endswith("s") else "s"
    return f"{head}{ending}{of}{tail}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(1200, "training sample")
    ('1 row', '1,200 training samples')
    """
    return f"{count:,} {plural(noun, count)}"


def quoted(text: str) -> str:
    """Return text in quotes, on one line, truncated to 60 characters."""
    return repr(text if len(text) <= 60 else text[:59] + "…")


def printable(text: str) -> str:
    """Escape non-printable characters, which could control a terminal.

    >>> printable("λ > 1"), printable("red\\x1b[31m")
    ('λ > 1', 'red\\\\x1b[31m')
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def reason_of(error: BaseException, most: int = 200) -> str:
    """Return the message of another library's error on one line, truncated to `most` characters."""
    return printable(" ".join(str(error).split()))[:most] or type(error).__name__


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return the first ``most`` names in quotes, and the number of remaining names.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
    ("'a', 'b', 'c'", "'a' and 2 more")
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(quoted, names[:most])) + more


def three_digits(value: float) -> str:
    """Return a number with three significant digits; large numbers have no exponent.

    >>> [three_digits(v) for v in (0.98765, -0.5, 3.0, 56.78, 12345.678)]
    ['0.988', '-0.5', '3', '56.8', '12,300']
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:.3g}"


def score_text(value: float) -> str:
    """Return a score as text; errors of a regression have the label's unit, and may be large.

    >>> score_text(0.5), score_text(-0.25), score_text(12345.678), score_text(56.78)
    ('0.500', '−0.250', '12,300', '56.8')
    """
    text = f"{value:.3f}" if abs(value) < 10 else three_digits(value)
    return text.replace("-", MINUS)


def interval_text(low: float, high: float, text: Callable[[float], str] = score_text) -> str:
    """Return an interval as text, without a dash beside a minus sign.

    >>> interval_text(0.25, 0.75), interval_text(-1, 0.5)
    ('0.250–0.750', '−1.000 to 0.500')
    """
    return f"{text(low)}{' to ' if low < 0 or high < 0 else '–'}{text(high)}"


def signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign, or without a sign if it rounds to zero.

    >>> [signed(v) for v in (1.25, -0.34, -0.04)]
    ['+1.2', '-0.3', '0.0']
    """
    text = f"{value:+.{digits}f}"
    return text if float(text) else text[1:]


def letters_of(name: str) -> str:
    """Return the letters and digits of a name in lower case, which its spellings share.

    >>> letters_of("Real World") == letters_of("real_world") == letters_of("RealWorld")
    True
    """
    return "".join(character for character in name.casefold() if character.isalnum())


def similar_names(names: Iterable[str], kind: str) -> list[str]:
    """Return a note for each group of names that differ in case, spaces or punctuation only.

    >>> similar_names(["owl", "Owl", "tit"], "classes")
    ["classes 'Owl', 'owl' differ in case, spaces or punctuation only: possible duplicates"]
    """
    by_letters: dict[str, list[str]] = {}
    for name in sorted(names):
        by_letters.setdefault(letters_of(name) or name, []).append(name)
    return [
        f"{kind} {listed(group, most=5)} differ in case, spaces or punctuation only: possible"
        " duplicates"
        for group in by_letters.values()
        # Punctuation tells numbers apart: −1 is not 1, and 1.5 is not 15.
        if len(group) > 1 and not all(any(c.isdigit() for c in name) for name in group)
    ]
