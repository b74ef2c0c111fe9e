"""Axes: the positions of values, and the ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from shiftproof.core import text as plain_text
from shiftproof.core.text import MINUS
from shiftproof.reporting.page.values import Tick

# Closer to an end of the axis than this, in percent, a centred label would not fit.
_NEAR_AN_END = 6.0


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, with ``ticks``."""

    low: float
    high: float
    ticks: tuple[float, ...]

    @classmethod
    def over(cls, values: Iterable[float], count: int = 5, margin: float = 0.0) -> Axis:
        """Return an axis that spans the values, with a margin as a share of their range."""
        found = list(values)
        low, high = min(found), max(found)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        room = margin * (high - low)
        low, high = low - room, high + room
        ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return cls(low, high, tuple(float(t) for t in ticks if low <= t <= high))

    @classmethod
    def around(cls, values: Iterable[float], count: int, within: tuple[float, float]) -> Axis:
        """Return an axis that ends on round numbers in the range ``within``."""
        inner = cls.over(values, count)
        ticks = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(inner.low, inner.high)
        kept = [float(t) for t in ticks if within[0] <= t <= within[1]]
        return cls(min(kept[0], inner.low), max(kept[-1], inner.high), tuple(kept))

    def share(self, value: float) -> float:
        """Return the position of a value, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def percent(self, value: float) -> float:
        """Return the position of a value, from 0 to 100, rounded to one decimal."""
        return round(100 * min(max(self.share(value), 0.0), 1.0), 1)

    def percent_ticks(self, sign: str = "") -> list[Tick]:
        """Return the ticks; the labels at both ends stay within the axis."""
        ticks = []
        for value in self.ticks:
            place = self.percent(value)
            anchor = "start" if place < _NEAR_AN_END else "middle"
            anchor = "end" if place > 100 - _NEAR_AN_END else anchor
            ticks.append(Tick(place, short(value) + sign, anchor))
        return ticks


def short(value: float) -> str:
    """Return a tick label; large numbers in thousands (k) or millions (M), to save room.

    >>> [short(v) for v in (1000.0, -2.5, 0.05, 50_000.0, 2.5e6)]
    ['1,000', '−2.5', '0.05', '50k', '2.5M']
    """
    size = abs(value)
    if size >= 1e6:
        text = f"{value / 1e6:,.6g}M"
    elif size >= 1e4:
        text = f"{value / 1e3:.6g}k"
    else:
        text = f"{value:,.0f}" if size >= 1e3 else f"{value:.6g}"
    return text.replace("-", MINUS)


def signed(value: float, digits: int = 1) -> str:
    """Return a difference with its sign, as `core.text.signed` does, but with a real minus sign.

    >>> [signed(v) for v in (1.25, -0.34, -0.04)]
    ['+1.2', '−0.3', '0.0']
    """
    return plain_text.signed(value, digits).replace("-", MINUS)
