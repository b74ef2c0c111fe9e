"""The training time, and where the numbers come from, in a few lines."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof import __version__
from shiftproof.core.text import counted
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.values import Fact
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import Run


def provenance_facts(
    outcomes: Sequence[Run],
    evidence: Evidence,
    paths: Sequence[str],
    command: str,
    notes: Sequence[str] = (),
) -> list[Fact]:
    """Return the time, the model, the data and the versions."""
    first = outcomes[0]
    seconds = evidence.seconds or sum(run.seconds or 0.0 for run in outcomes)
    also = ", and one on all" if evidence.seconds else ""
    found = [
        Fact(
            "Time",
            [
                f"{_time(seconds)} of training: {counted(len(outcomes), 'run')} without one"
                f" {evidence.noun} each{also}."
            ],
        ),
        Fact("Model", [_model(first)]),
        Fact("Data", [_data(first)]),
    ]
    if notes:
        found.append(Fact("Notes on the files", list(notes)))
    if first.environment:
        made = ", ".join(f"{name} {value}" for name, value in first.environment.items())
        found.append(Fact("Made with", [made]))
    found.append(Fact("Read from", list(paths), code=True))
    made_by = [command] if command else []
    found.append(Fact("This page", [*made_by, f"shiftproof {__version__}"], code=True))
    return found


def _model(run: Run) -> str:
    hparams = run.config.get("hparams") or {}
    said = ", ".join(
        f"{name.replace('_', ' ')} {str(value).replace('_', ' ')}"
        for name, value in hparams.items()
    )
    settings = f" ({said})" if said else ""
    balanced = run.config.get("class_weight") == "balanced"
    weighed = ", trained with all classes counted alike; scores count rows" if balanced else ""
    return f"{algorithm_title(run.algorithm)}{settings}, seed {run.trial_seed}{weighed}"


def _data(run: Run) -> str:
    own = run.config.get("fingerprint")
    return f"{dataset_title(run.dataset)}" + (f", fingerprint {own}" if own else "")


def _time(seconds: float) -> str:
    """Return a duration in words.

    >>> _time(12.4), _time(200), _time(7300)
    ('12 s', '3 min', '2.0 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
