"""Sentences that several sections share: what the numbers are and how they were chosen."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.report.tables import ERROR_BAR, number_ranges
from shiftproof.sweeps.aggregate import DatasetResults, SelectionResults
from shiftproof.sweeps.domainbed.logs import dataset_title

# Of each way of choosing: a short name, how it goes on after "chosen", and what to think of it.
_WAYS = {
    "training-domain": (
        "training-domain validation",
        "Run and step with the highest accuracy on samples of the training domains that were not"
        " trained on. It needs nothing of the test domain.",
    ),
    "leave-one-domain-out": (
        "leave-one-domain-out",
        "Run and step with the highest accuracy on other domains that were held out as well. It"
        " needs nothing of the test domain.",
    ),
    "best-minimum": (
        "best minimum of training and test accuracy",
        "Run with the highest minimum of training and test accuracy at its last step. It looks at"
        " the very accuracy that is reported: what can be reached, not what to expect.",
    ),
    "invariance": (
        "invariance of the outputs",
        "The lowest worst-domain risk among steps whose outputs mean the same in every training"
        " domain, as far as a test can tell. It needs nothing of the test domain.",
    ),
    "oracle": (
        "test-domain validation (oracle)",
        "The last step of the run with the highest accuracy on labelled samples of the test domain"
        " itself: what could be reached, not what a user without such labels would get.",
    ),
    "last-step": (
        "last step",
        "The last step of each run, which is the model that its folder holds. Nothing was chosen.",
    ),
}


def way(results: SelectionResults) -> str:
    """Return a short name of how runs and steps were chosen."""
    known = _WAYS.get(results.selector.name)
    return known[0] if known else results.selector.title


def way_explained(results: SelectionResults) -> str:
    """Say how runs and steps were chosen, if it is one of our ways."""
    known = _WAYS.get(results.selector.name)
    return known[1] if known else ""


def counted(number: int, word: str) -> str:
    """Return a number of things.

    >>> counted(1, "run"), counted(1479, "run")
    ('1 run', '1,479 runs')
    """
    return f"{number:,} {word}{'s' * (number != 1)}"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def seeds_of(dataset: DatasetResults) -> str:
    """Say how many trials and draws there are, with their seeds."""
    trials = f"{number_ranges(dataset.trials)}"
    several = "seeds" if len(dataset.trials) > 1 else "seed"
    if dataset.alone:
        return f"runs of {several} {trials}"
    draws = "seeds" if len(dataset.draws) > 1 else "seed"
    return (
        f"{counted(len(dataset.trials), 'trial')} ({several} {trials}),"
        f" {counted(len(dataset.draws), 'hyper-parameter draw')}"
        f" ({draws} {number_ranges(dataset.draws)})"
    )


def error_bars(datasets: Sequence[DatasetResults]) -> str:
    """Say what ± is, or why there is none."""
    if max(len(d.trials) for d in datasets) > 1:
        return f"± {ERROR_BAR}"
    return "one trial, hence no error bars"


def what_the_numbers_are(results: SelectionResults, datasets: Sequence[DatasetResults]) -> str:
    """Say split, way of choosing, seeds, trials, draws and error bars."""
    sizes: dict[str, list[str]] = {}
    for dataset in datasets:
        sizes.setdefault(seeds_of(dataset), []).append(dataset_title(dataset.dataset))
    said = "; ".join(
        f"{listed(names)}: {text}" if len(sizes) > 1 else text for text, names in sizes.items()
    )
    return (
        f"Accuracy (%) on the in part of the test domain (test-in, by default 80% of it);"
        f" {way(results)}; {said};"
        f" {error_bars(datasets)}."
    )
