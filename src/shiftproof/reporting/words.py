"""Words on a sweep that tables and pages share: sizes, selectors, error bars, missing runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from shiftproof.core.text import counted, plural
from shiftproof.sweeps.aggregate import DIVERGED, DatasetResults, MissingRun, SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.standalone_runs import ADAPTED

ERROR_BAR = "population standard deviation over trials / √trials"


def capital(text: str) -> str:
    """Return a text with a capital first letter.

    >>> capital("accuracy or R²"), capital("R²")
    ('Accuracy or R²', 'R²')
    """
    return text[:1].upper() + text[1:]


def joined(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> joined(["a"]), joined(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def p_value_text(value: float, digits: int) -> str:
    """Return a p-value with ``digits`` decimals, or in scientific notation if they are all 0.

    >>> p_value_text(0.0123, 3), p_value_text(0.00014, 3), p_value_text(1.0, 4)
    ('0.012', '1e-04', '1.0000')
    """
    text = f"{value:.{digits}f}"
    return text if float(text) else f"{value:.0e}"


def number_ranges(numbers: Iterable[int]) -> str:
    """Return integers as ranges.

    >>> number_ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    ordered = sorted(set(numbers))
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in spans)


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return a noun with its numbers.

    >>> numbered("seed", [0, 1, 2]), numbered("trial", [4])
    ('seeds 0-2', 'trial 4')
    """
    return f"{plural(noun, len(numbers))} {number_ranges(numbers)}"


def sizes_of(datasets: Sequence[DatasetResults]) -> str:
    """Return the trials and draws of datasets with their seeds, datasets of equal size together."""
    sizes: dict[str, list[str]] = {}
    for dataset in datasets:
        sizes.setdefault(_size(dataset), []).append(dataset_title(dataset.dataset))
    return "; ".join(
        f"{joined(names)}: {text}" if len(sizes) > 1 else text for text, names in sizes.items()
    )


def _size(dataset: DatasetResults) -> str:
    if dataset.standalone:
        return f"runs of {numbered('seed', dataset.trials)}"
    trials, draws = dataset.trials, dataset.draws
    return (
        f"{counted(len(trials), 'trial')} ({numbered('seed', trials)}),"
        f" {counted(len(draws), 'hyper-parameter draw')} ({numbered('seed', draws)})"
    )


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


# Pairs of trial seed and hyper-parameter seed.
Seeds = frozenset[tuple[int, int]]


def describe_missing(runs: Iterable[MissingRun]) -> list[str]:
    """Describe the runs that could not be used, similar ones in one line.

    Diverged runs, which will give no result, come last.

    >>> describe_missing(MissingRun("x", "a", ("u",), draw, 0, "missing") for draw in (0, 1, 2, 4))
    ['missing: a on x, test domain u, hyper-parameter seeds 0-2, 4, trial 0']
    """
    by_run: dict[tuple[str, str, str, tuple[str, ...]], set[tuple[int, int]]] = {}
    for run in sorted(runs, key=lambda run: run.reason == DIVERGED):
        run_of = (run.reason, run.dataset, run.algorithm, run.test_domains)
        by_run.setdefault(run_of, set()).add((run.trial_seed, run.hparams_seed))
    tests: dict[tuple[str, str, str, Seeds], list[str]] = {}
    for (reason, dataset, algorithm, domains), which in by_run.items():
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
    return " and ".join(f"{text}, {numbered('trial', seeds)}" for text, seeds in trials.items())


def run_notes(runs: Iterable[Run]) -> list[str]:
    """Return a line for each kind of mark: how many runs have it, and the first of them."""
    by_text: dict[str, list[tuple[Run, int]]] = {}
    for run in runs:
        for mark in run.marks:
            by_text.setdefault(mark.text, []).append((run, mark.number))
    lines = []
    for text, marked in by_text.items():
        many = f"{total:,} in all; " if (total := sum(count for _, count in marked)) else ""
        first = "first: " if len(marked) > 1 else ""
        where = f"{many}{first}{marked[0][0].folder}"
        lines.append(f"{counted(len(marked), 'run')}: {text} ({where})")
    return lines
