"""A sweep on the terminal: its plan, and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from shiftproof.sweeps.store import ENDED, Failure, Standing

if TYPE_CHECKING:  # torch takes seconds to import, and showing progress does not need it
    from shiftproof.sweeps.sweep import SweepPlan


def plan_table(plan: SweepPlan, workers: int) -> RenderableType:
    """Return the number of runs, in total and by selection method, the time and the disk space."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("dataset")
    for name in ("runs", "seconds each", "steps each"):
        table.add_column(name, justify="right")
    by_set: dict[str, list[float]] = {}
    for job in plan.jobs:
        cost = plan.costs[job.data.name, job.variant]
        by_set.setdefault(job.data.name, []).append(cost.seconds(job))
    steps = Counter((job.data.name, job.config.steps) for job in plan.jobs)
    for name, seconds in by_set.items():
        low, high = min(seconds), max(seconds)
        lengths = sorted({count for (set_, count) in steps if set_ == name})
        table.add_row(
            Text(name),
            f"{len(seconds):,}",
            f"{low:.0f}–{high:.0f}" if high >= low + 1 else f"{low:.1f}",
            ", ".join(f"{count:,}" for count in lengths),
        )
    asked = "; ".join(f"{name} {count:,}" for name, count in plan.by_selector.items())
    lines = [
        f"{len(plan.jobs):,} runs" + (f" (by selection method: {asked})" if asked else ""),
        f"about {duration(plan.seconds(workers))} in {workers} process"
        f"{'' if workers == 1 else 'es'}, {decimal(plan.disk)} of checkpoints"
        " (from a few measured steps of each algorithm)",
    ]
    return Group(table, *map(Text, lines))


def standing_table(standing: Standing) -> RenderableType:
    """Return the counts, the runs under way, the best so far and the time left."""
    done = standing.total - standing.left
    counts = ", ".join(f"{standing.counts[state]} {state}" for state in ENDED)
    left = standing.left - len(standing.running)
    head = (
        f"{done} of {standing.total} runs: {counts}, {len(standing.running)} running, {left} left"
    )
    if standing.seconds_left is not None and standing.running:
        head += f"; about {duration(standing.seconds_left)} left"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for title, step, steps in standing.running.values():
        parts.append(Text(f"  {100 * step / steps:3.0f}%  {title}"))
    if standing.best:
        parts.append(Text("best accuracy so far on a held-out domain (no selection):"))
        for domain, (accuracy, algorithm) in standing.best.items():
            parts.append(Text(f"  {100 * accuracy:.1f}%  {algorithm} on {domain}"))
    return Group(*parts)


def failure_lines(failures: Sequence[Failure], most: int = 10) -> Iterator[str]:
    """Yield a line for each failed run, at most ``most``."""
    for failure in failures[:most]:
        yield f"failed: {failure.title}: {failure.reason}"
    if len(failures) > most:
        yield f"… and {len(failures) - most} more"


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> [duration(s) for s in (3.2, 100, 5000, 200000)]
    ['3 s', '2 min', '1.4 h', '2.3 days']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400 / 1.5:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
