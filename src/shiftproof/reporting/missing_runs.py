"""The runs that a selector lacks, in as few lines as possible."""

from __future__ import annotations

from collections.abc import Iterable

from shiftproof.core.text import plural
from shiftproof.reporting.words import numbered
from shiftproof.sweeps.aggregate import DIVERGED, MissingRun
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title

# Pairs of trial seed and hyper-parameter seed.
Seeds = frozenset[tuple[int, int]]


def describe_missing(runs: Iterable[MissingRun]) -> list[str]:
    """Describe the runs that could not be used, similar ones in one line.

    Diverged runs, which will give no result, come last.

    >>> describe_missing(MissingRun("x", "a", ("u",), draw, 0, "missing") for draw in (0, 1, 2, 4))
    ['missing: a on x, test domain u, hyper-parameter seeds 0-2, 4, trial 0']
    """
    found: dict[tuple[str, str, str, tuple[str, ...]], set[tuple[int, int]]] = {}
    for run in sorted(runs, key=lambda run: run.reason == DIVERGED):
        place = (run.reason, run.dataset, run.algorithm, run.test_domains)
        found.setdefault(place, set()).add((run.trial_seed, run.hparams_seed))
    tests: dict[tuple[str, str, str, Seeds], list[str]] = {}
    for (reason, dataset, algorithm, domains), which in found.items():
        same_seeds = tests.setdefault((reason, dataset, algorithm, frozenset(which)), [])
        same_seeds.append("+".join(domains))
    names: dict[tuple[str, str, tuple[str, ...], Seeds], list[str]] = {}
    for (reason, dataset, algorithm, seeds), held_out in tests.items():
        same_tests = names.setdefault((reason, dataset, tuple(sorted(held_out)), seeds), [])
        same_tests.append(algorithm_title(algorithm))
    return [
        f"{reason}: {', '.join(algorithms)} on {dataset_title(dataset)}, test"
        f" {plural('domain', len(held_out))} {', '.join(held_out)}, {_describe_seeds(seeds)}"
        for (reason, dataset, held_out, seeds), algorithms in names.items()
    ]


def _describe_seeds(which: Seeds) -> str:
    by_trial: dict[int, list[int]] = {}
    for trial, draw in sorted(which):
        by_trial.setdefault(trial, []).append(draw)
    trials: dict[str, list[int]] = {}
    for trial, draws in by_trial.items():
        trials.setdefault(f"hyper-parameter {numbered('seed', draws)}", []).append(trial)
    return " and ".join(f"{text}, {numbered('trial', found)}" for text, found in trials.items())
