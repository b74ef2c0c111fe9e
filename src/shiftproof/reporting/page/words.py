"""Sentences that several sections share: what the numbers are and how runs were selected."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.reporting.words import ERROR_BAR, capital, sizes_of
from shiftproof.sweeps.aggregate import DatasetResults, SelectionResults
from shiftproof.sweeps.standalone_runs import ADAPTED

# The short name of each selector, and what it does.
_SELECTORS = {
    "training-domain": (
        "training-domain validation",
        "Run and step with the highest accuracy on samples of the training domains that were not"
        " trained on. It uses nothing of the test domain.",
    ),
    "leave-one-domain-out": (
        "leave-one-domain-out",
        "Run and step with the highest accuracy on other domains that were held out as well. It"
        " uses nothing of the test domain.",
    ),
    "best-minimum": (
        "best minimum of training and test accuracy",
        "Run with the highest minimum of training and test accuracy at its last step. It uses"
        " the very accuracy that is reported: what can be reached, not what to expect.",
    ),
    "invariance": (
        "invariance of the outputs",
        "The lowest worst-domain risk among steps for which a test finds no concept shift between"
        " the training domains. It uses nothing of the test domain.",
    ),
    "oracle": (
        "test-domain validation (oracle)",
        "The last step of the run with the highest accuracy on labelled samples of the test domain"
        " itself: what could be reached, not what a user without such labels would get.",
    ),
    "retrained": (
        "retrained on all samples",
        "Selected runs, repeated with nothing held out of the training domains. Plain rows are not"
        " retrained, and selected by training-domain validation.",
    ),
    "last-step": (
        "last step",
        "The last step of each run, which is the model in its folder. Nothing was selected.",
    ),
    "run-end": (
        "end of each run",
        "The weights that each run ends with, which are the model in its folder: an average over"
        " steps, or the step that is best on samples of the training domains that were not trained"
        " on, as its settings say (average). They use nothing of the test domain.",
    ),
}


def selector_name(results: SelectionResults) -> str:
    """Return a short name for how runs and steps were selected."""
    known = _SELECTORS.get(results.selector.name)
    adapted = all(dataset.dataset.endswith(ADAPTED) for dataset in results.datasets)
    return (known[0] if known else results.selector.title) + ADAPTED * adapted


def selector_explained(results: SelectionResults) -> str:
    """Explain how runs and steps were selected; empty for a plugin's selector."""
    known = _SELECTORS.get(results.selector.name)
    return known[1].replace("accuracy", results.measure) if known else ""


def error_bars(datasets: Sequence[DatasetResults]) -> str:
    """Say what ± stands for, or why there are no error bars."""
    if max(len(d.trials) for d in datasets) > 1:
        return f"± {ERROR_BAR}"
    return "one trial, hence no error bars"


def what_the_numbers_are(results: SelectionResults, datasets: Sequence[DatasetResults]) -> str:
    """Describe the numbers: split, selector, seeds, trials, draws and error bars."""
    return (
        f"{capital(results.measure)} (%) on the part of the test domain that is set aside for"
        " testing (by default 80% of it);"
        f" {selector_name(results)}; {sizes_of(datasets)}; {error_bars(datasets)}."
    )
