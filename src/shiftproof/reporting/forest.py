"""A forest plot for the terminal: the held-out domains, a typical domain, and the next one."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from shiftproof.core.text import interval_text, score_text, three_digits
from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS

WIDTH = 33
TYPICAL, NEXT = "typical domain", "next domain"


def forest_table(expected: Expected) -> Table:
    """Return each domain's score with its interval, and the prediction interval below them.

    A domain is drawn as ├──●──┤, with a star if it is an outlier, the typical domain as ├──◆──┤,
    and the range of the next domain as ━━━━━.
    """
    score = expected.headline
    low, high = score.interval
    left = min([low, *(own.low for own in score.estimates.values())])
    right = max([high, *(own.high for own in score.estimates.values())])
    name = METRICS.get(expected.metric).phrase
    table = Table(
        title=f"{name} to expect at the next domain",
        title_justify="left",
        caption=f"Intervals of {score.level:.0%}: of a domain, for its samples; of the next domain,"
        " for how domains differ. Half of the domains are better than the typical one. The line is"
        f" from {three_digits(left)} to {three_digits(right)}.",
        caption_justify="left",
    )
    table.add_column("held out")
    table.add_column(name, justify="right")
    table.add_column("interval", justify="right", no_wrap=True, min_width=len("0.123–0.456"))
    table.add_column("", no_wrap=True, min_width=WIDTH)
    for domain, own in score.estimates.items():
        mark = " *" if domain in score.outliers else ""
        drawn = bar(own.low, own.value, own.high, left, right, "├─●─┤")
        table.add_row(
            Text(domain + mark), score_text(own.value), interval_text(own.low, own.high), drawn
        )
    table.add_section()
    middle = score.mean_interval
    drawn = bar(middle[0], score.mean, middle[1], left, right, "├─◆─┤")
    table.add_row(TYPICAL, score_text(score.mean), interval_text(*middle), drawn)
    drawn = bar(low, score.mean, high, left, right, "━━━━━")
    table.add_row(NEXT, "", interval_text(low, high), drawn, style="bold")
    return table


def bar(low: float, value: float, high: float, left: float, right: float, signs: str) -> str:
    """Draw an interval as text on the line from `left` to `right`.

    `signs` are the characters of the low end, the part below the value, the value, the part above
    it, and the high end.

    >>> bar(0.2, 0.5, 0.8, 0, 1, "├─●─┤")
    '      ├─────────●─────────┤      '
    """
    start, middle, end = (
        round((at - left) / ((right - left) or 1) * (WIDTH - 1)) for at in (low, value, high)
    )
    line = [" "] * WIDTH
    line[start : middle + 1] = signs[1] * (middle + 1 - start)
    line[middle : end + 1] = signs[3] * (end + 1 - middle)
    line[start], line[end], line[middle] = signs[0], signs[4], signs[2]
    return "".join(line)
