"""What an executor is: it takes jobs and tells what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from shiftproof.benchmark.jobs import Job

Kind = Literal["started", "progress", "ended", "failed"]


@dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    ``progress`` says how far it is (``step``); ``ended`` how (``status``: finished, diverged or
    stopped) and after how many ``seconds`` of its own; ``failed`` why.
    """

    kind: Kind
    job: Job
    step: int = 0
    status: str = ""
    seconds: float = 0.0
    accuracy: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    trace: str = ""


# Told of every event; returns whether to stop.
Listener = Callable[[Event | None], bool]
