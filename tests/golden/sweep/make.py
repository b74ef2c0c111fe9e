"""A small sweep in DomainBed's form, and the table that its tool would print; no code of ours.

    python tests/golden/sweep/make.py

writes expected.txt beside this file.  The logs are random numbers from a fixed seed, so they need
not be kept: tests call `write_runs`.  The table is computed by DomainBed's rules, step by step:

- training-domain: the step with the highest mean accuracy on the out parts of the training domains;
- leave-one-domain-out: the same with the in parts of the other domains, each held out in turn;
- oracle: the last step, scored by the out part of the test domain.

The draw of hyper-parameters with the highest score is selected in every trial; of equal ones the
last, of equal steps the first.  Accuracies are multiples of 1/16, so there are ties.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

DATASETS = {"ColoredMNIST": ("+90%", "+80%", "-90%"), "VLCS": ("C", "L", "S", "V")}
ALGORITHMS = ("ERM", "IDM")
DRAWS = TRIALS = (0, 1)
STEPS = (0, 100, 200)

Accuracies = dict[tuple[int, str], float]
Run = dict[int, Accuracies]
Runs = dict[tuple[str, str, tuple[int, ...], int, int], Run]


def write_runs(folder: Path) -> None:
    """Write a folder a run, with ``results.jsonl`` and ``done``."""
    for number, (key, run) in enumerate(made().items()):
        dataset, algorithm, tests, draw, trial = key
        args = {
            "dataset": dataset, "algorithm": algorithm, "test_envs": list(tests),
            "hparams_seed": draw, "trial_seed": trial, "steps": STEPS[-1] + 1,
        }  # fmt: skip
        place = folder / f"{number:03}"
        place.mkdir(parents=True)
        with open(place / "results.jsonl", "w", encoding="utf-8") as file:
            for step, accuracies in run.items():
                named = {f"env{at}_{part}_acc": a for (at, part), a in accuracies.items()}
                file.write(json.dumps({"args": args, "step": step, "loss": 0.5, **named}) + "\n")
        (place / "done").write_text("done")


def made() -> Runs:
    """Return the runs, by dataset, algorithm, test domains, draw and trial."""
    rng = random.Random(17)
    runs: Runs = {}
    for dataset, domains in DATASETS.items():
        positions = range(len(domains))
        held_out = [*itertools.combinations(positions, 1), *itertools.combinations(positions, 2)]
        for key in itertools.product(ALGORITHMS, held_out, DRAWS, TRIALS):
            runs[dataset, *key] = {
                step: {(at, part): rng.randrange(17) / 16 for at in positions for part in PARTS}
                for step in STEPS
            }
    return runs


PARTS = ("in", "out")
# From the runs of one draw, by the domains they hold out, to the score of each step.
Scores = Callable[[dict[tuple[int, ...], Run], int, int], dict[int, float]]


def training_domain(runs: dict[tuple[int, ...], Run], test: int, count: int) -> dict[int, float]:
    others = [at for at in range(count) if at != test]
    return {s: mean(a[at, "out"] for at in others) for s, a in runs[(test,)].items()}


def leave_one_out(runs: dict[tuple[int, ...], Run], test: int, count: int) -> dict[int, float]:
    others = [at for at in range(count) if at != test]
    pairs = {at: runs[min(test, at), max(test, at)] for at in others}
    return {s: mean(pairs[at][s][at, "in"] for at in others) for s in STEPS}


def oracle(runs: dict[tuple[int, ...], Run], test: int, count: int) -> dict[int, float]:
    return {STEPS[-1]: runs[(test,)][STEPS[-1]][test, "out"]}


SELECTIONS: dict[str, Scores] = {
    "training-domain validation set": training_domain,
    "leave-one-domain-out cross-validation": leave_one_out,
    "test-domain validation set (oracle)": oracle,
}


def expected_table() -> str:
    """Return what DomainBed's tool prints of the runs."""
    return "\n".join(lines(made())) + "\n"


def lines(runs: Runs) -> Iterator[str]:
    yield f"Total records: {len(runs) * len(STEPS)}"
    for title, scores in SELECTIONS.items():
        selected = {
            (dataset, algorithm): [
                [select(runs, scores, dataset, algorithm, test, trial) for trial in TRIALS]
                for test in range(len(domains))
            ]
            for dataset, domains in DATASETS.items()
            for algorithm in ALGORITHMS
        }
        for dataset, domains in DATASETS.items():
            yield from ("", f"-------- Dataset: {dataset}, model selection method: {title}")
            yield row(20, "Algorithm", *domains, "Avg")
            for algorithm in ALGORITHMS:
                cells = selected[dataset, algorithm]
                average = mean(mean(cell) for cell in cells)
                yield row(20, algorithm, *map(printed, cells), f"{100 * average:.1f}")
        yield from ("", f"-------- Averages, model selection method: {title}")
        yield row(25, "Algorithm", *DATASETS, "Avg")
        for algorithm in ALGORITHMS:
            # Over test domains within a trial, then over trials.
            by_trial = [
                [mean(of_trial) for of_trial in zip(*selected[name, algorithm], strict=True)]
                for name in DATASETS
            ]
            average = mean(mean(trials) for trials in by_trial)
            yield row(25, algorithm, *map(printed, by_trial), f"{100 * average:.1f}")


def select(
    runs: Runs, scores: Scores, dataset: str, algorithm: str, test: int, trial: int
) -> float:
    """Return the accuracy on the test domain's in part of the selected draw at its best step."""
    best, accuracy = -1.0, math.nan
    for draw in DRAWS:
        own = {
            tests: run
            for (name, method, tests, seed, of_trial), run in runs.items()
            if (name, method, seed, of_trial) == (dataset, algorithm, draw, trial)
        }
        by_step = scores(own, test, len(DATASETS[dataset]))
        step = max(by_step, key=by_step.__getitem__)  # of equal ones the first
        if by_step[step] >= best:
            best, accuracy = by_step[step], own[(test,)][step][test, "in"]
    return accuracy


def mean(values: object) -> float:
    return statistics.fmean(values)  # type: ignore[arg-type]


def printed(values: list[float]) -> str:
    error = statistics.pstdev(values) / math.sqrt(len(values))
    return f"{100 * mean(values):.1f} +/- {100 * error:.1f}"


def row(width: int, *cells: str) -> str:
    return "  ".join(cell.ljust(width) for cell in cells) + " "


if __name__ == "__main__":
    Path(__file__).with_name("expected.txt").write_text(expected_table(), "utf-8")
