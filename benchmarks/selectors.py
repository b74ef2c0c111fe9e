"""`python -m benchmarks.selectors DATA_FOLDER`: what each way of selecting a model selects.

A small sweep on each dataset: a few algorithms and draws of hyper-parameters, and each held-out
domain in turn (of many domains, some).  The same runs are then selected by `training-domain`, by
`invariance`, which reads training domains alone too, and by `oracle`, which reads the held-out one.

Recorded runs on Colored MNIST are selected in the same way.

A sweep goes on where it was interrupted; what it selected is appended to a file of records, and
the page is written from that.  A dataset that is not there is left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import shiftproof
from shiftproof.sweeps.read_runs import read_sweep
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.selection import SELECTORS
from shiftproof.sweeps.selection.invariance import LEVEL

SELECTION = ("training-domain", "invariance", "oracle")
ALGORITHMS = ("erm", "irm", "vrex", "idm")
# Selects among the runs of all algorithms.
ANY = "any"
RESULTS = Path(__file__).parents[1] / "results"
RECORDED = RESULTS / "invariance.jsonl.gz"
DRAWS, STEPS = 1, 301


@dataclass(frozen=True)
class Swept:
    """A dataset of the benchmark: where it is, how to read it, and which domains to hold out."""

    name: str
    path: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    steps: int = STEPS
    draws: int = DRAWS


TABLE = {"label": "label", "domain": "domain"}
SETS = (
    Swept(
        "hospitals", "heart-disease/heart.csv", {"label": "disease", "domain": "hospital"}, draws=3
    ),
    # With many domains, only some are held out, each while all others are trained on.
    Swept(
        "gas drift",
        "tables/gas_drift.csv.gz",
        TABLE | {"test_domains": ["batch02", "batch04", "batch09"]},
    ),
    Swept("wisdm", "tables/wisdm_activity.csv.gz", TABLE | {"test_domains": ["u10"]}, steps=61),
    Swept(
        "PACS (336 images, frozen features)",
        "pacs-sample",
        {"backbone": "tf_efficientnet_lite0"},
        steps=101,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selectors", description=__doc__)
    parser.add_argument("data", type=Path, help="folder with the datasets of `SETS`")
    parser.add_argument("--work", type=Path, default=Path("selectors"), help="folder of the sweeps")
    parser.add_argument("--out", type=Path, default=RESULTS / "selectors.jsonl")
    asked = parser.parse_args(arguments)
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    records = [json.loads(line) for line in lines]
    for each in SETS:
        if any(record["dataset"] == each.name for record in records):
            continue
        path = asked.data / each.path
        if not path.exists():
            print(f"{each.name}: skipped, there is no {path}", file=sys.stderr)
            continue
        reading = dict(each.reading)
        if "backbone" in reading:
            reading["weights"] = asked.data / "weights" / f"{reading['backbone']}.safetensors"
        folder = asked.work / each.name.split()[0].lower()
        done = shiftproof.sweep(
            path, ALGORITHMS, preset="lite", n_hparams=each.draws, trials=1, selection=SELECTION,
            steps=each.steps, out=folder, workers=1, device="cpu", **reading,
        )  # fmt: skip
        if done.status != "finished":
            print(f"{each.name}: {done.status}, {done.failures[:1]}", file=sys.stderr)
            return 1
        found = list(selected(each.name, read_sweep(folder)))
        records += found
        with open(asked.out, "a") as file:
            file.writelines(json.dumps(record) + "\n" for record in found)
        print("\n".join(rows(found)), file=sys.stderr, flush=True)
    asked.out.with_suffix(".md").write_text(page([*records, *of_recorded_runs()]))
    return 0


def of_recorded_runs() -> Iterator[dict[str, Any]]:
    """Yield what is selected among the recorded runs on Colored MNIST."""
    recorded = read_sweep(RECORDED)
    for held_out in sorted({run.test_domains for run in recorded}):
        own = [run for run in recorded if run.test_domains == held_out]
        name = f"Colored MNIST, {own[0].domains[held_out[0]]} held out (recorded)"
        yield from selected(name, own)


def selected(name: str, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Yield the selected accuracies for each held-out domain, trial and algorithm."""
    for (position,), trial in sorted({(run.test_domains, run.trial_seed) for run in runs}):
        here = [run for run in runs if (run.test_domains, run.trial_seed) == ((position,), trial)]
        there = list(dict.fromkeys(run.algorithm for run in here))
        for algorithm in (*there, ANY)[: None if len(there) > 1 else 1]:
            own = [run for run in here if algorithm in (run.algorithm, ANY)]
            if algorithm == ANY:  # unique numbers keep draws of different algorithms apart
                own = [replace(run, hparams_seed=i) for i, run in enumerate(own)]
            chosen = {by: SELECTORS.get(by)().select(own, position) for by in SELECTION}
            tested = [e.shift.concept_p for run in own for e in run.evaluations if e.shift]
            yield {
                "dataset": name,
                "held_out": own[0].domains[position],
                "algorithm": algorithm,
                "runs": len(own),
                # Not rounded to what the page prints: a mean of rounded values may round otherwise.
                "accuracy": {by: each and round(each.accuracy, 6) for by, each in chosen.items()},
                "of": {by: each and each.run.algorithm for by, each in chosen.items()},
                "without_shift": round(fmean(p >= LEVEL for p in tested), 3) if tested else None,
            }


def rows(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table: means over held-out domains."""
    records = list(records)
    for name, algorithm in dict.fromkeys((r["dataset"], r["algorithm"]) for r in records):
        own = [r for r in records if (r["dataset"], r["algorithm"]) == (name, algorithm)]
        cells = [
            f"{100 * fmean(known):.1f}" if len(known) == len(own) else "–"
            for by in SELECTION
            for known in [[r["accuracy"][by] for r in own if r["accuracy"][by] is not None]]
        ]
        tested = [r["without_shift"] for r in own if r["without_shift"] is not None]
        share = f"{100 * fmean(tested):.0f}%" if tested else "–"
        yield f"| {name} | {algorithm} | {len(own)} | {' | '.join(cells)} | {share} |"


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of results."""
    return "\n".join(
        [
            "# What each way of selecting a model selects",
            "",
            "By `python -m benchmarks.selectors` (records: `selectors.jsonl`). Of each dataset a"
            " small sweep: 61 to 301 steps, the default hyper-parameters (hospitals: three draws),"
            " one trial. Accuracy in percent in the held-out domain, in the mean over"
            " cells (held-out domains × trials). `training-domain` and `invariance` read training"
            " domains alone;"
            " `oracle` reads a part of the held-out one, at the last step. `any` selects among the"
            " runs of all algorithms. The last column is the share of evaluations in which no"
            f" concept shift of the outputs shows between training domains (p ≥ {LEVEL:g})."
            " The rows of Colored MNIST select among recorded runs of the first version of"
            " `idm-auto` (`invariance.jsonl.gz`: 2,001 steps, three trials).",
            "",
            f"| dataset | algorithm | cells | {' | '.join(SELECTION)} | without a shift |",
            "|---|---|---|---|---|---|---|",
            *rows(records),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
