"""Write runs in DomainBed's format, for its own tools."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shiftproof.core.errors import DataError
from shiftproof.core.text import counted
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, published_dataset
from shiftproof.sweeps.results import Evaluation, Run


def write_domainbed_runs(outcomes: Iterable[Run], folder: Path) -> int:
    """Write the finished runs in DomainBed's format to a new folder; return their number.

    Other runs are left out: DomainBed's tool ignores the status and would select from them.
    Accuracies that were not evaluated are NaN, because that tool counts domains by their keys; see
    `unusable_selections`.  Hyper-parameters keep their names in the run.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not empty; choose another folder for the exported runs")
    finished = [outcome for outcome in outcomes if outcome.status == "finished"]
    if not finished:
        return 0
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as aside:
        new = Path(aside) / folder.name
        for outcome in finished:
            name = hashlib.sha256(repr(outcome.key).encode()).hexdigest()[:32]
            run = new / name
            run.mkdir(parents=True)
            lines = [json.dumps(record) + "\n" for record in _records(outcome, folder / name)]
            (run / "results.jsonl").write_text("".join(lines))
            (run / "done").write_text("done")
        if folder.exists():
            folder.rmdir()
        new.rename(folder)
    return len(finished)


def unusable_selections(outcomes: Iterable[Run]) -> list[str]:
    """Return a warning for each selection method of DomainBed's tool that would compare NaN."""
    alone = [o for o in outcomes if o.status == "finished" and len(o.test_domains) == 1]
    # The oracle reads only the last evaluation, the other selection all of them.
    train = sum(_lacks(run, run.evaluations, tested=False) for run in alone)
    test = sum(_lacks(run, run.evaluations[-1:], tested=True) for run in alone)
    return [
        f"{counted(count, 'exported run')} did not evaluate the out {parts}: do not use DomainBed's"
        f" {selection} selection on them, because it would compare NaN"
        for count, parts, selection in (
            (train, "parts of the training domains", "training-domain"),
            (test, "part of the test domain", "oracle"),
        )
        if count
    ]


def _lacks(run: Run, evaluations: Iterable[Evaluation], *, tested: bool) -> bool:
    """Whether evaluations lack an accuracy on the out part of a training or test domain."""
    out = [i for i in range(len(run.domains)) if (i in run.test_domains) == tested]
    return any(evaluation.outside[i] is None for evaluation in evaluations for i in out)


def _records(outcome: Run, folder: Path) -> Iterator[dict[str, Any]]:
    known = published_dataset(outcome.dataset, outcome.domains) is not None
    config = outcome.config
    args = {
        "algorithm": algorithm_title(outcome.algorithm),
        "dataset": dataset_title(outcome.dataset) if known else outcome.dataset,
        "domains": list(outcome.domains),  # our addition: DomainBed knows only positions
        "hparams": None,
        "hparams_seed": outcome.hparams_seed,
        "output_dir": config.get("output_dir", str(folder)),
        "steps": outcome.evaluations[-1].step if outcome.evaluations else None,
        "test_envs": list(outcome.test_domains),
        "trial_seed": outcome.trial_seed,
    }
    hparams = config.get("hparams") or {}
    for evaluation in outcome.evaluations:
        parts = (("in", evaluation.inside), ("out", evaluation.outside))
        accuracies = {
            f"env{position}_{part}_acc": math.nan if value is None else value
            for part, values in parts
            for position, value in enumerate(values)
        }
        yield {"args": args, **accuracies, "hparams": hparams, "step": evaluation.step - 1}
