"""Text for numbers, lists, and the sizes of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from shiftproof.core.text import MINUS as MINUS, counted, plural, score_text as score_text
from shiftproof.sweeps.aggregate import DatasetResults
from shiftproof.sweeps.domainbed.names import dataset_title

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


def interval_text(low: float, high: float) -> str:
    """Return an interval as text, without a dash beside a minus sign.

    >>> interval_text(0.25, 0.75), interval_text(-1, 0.5)
    ('0.250–0.750', '−1.000 to 0.500')
    """
    between = " to " if low < 0 or high < 0 else "–"
    return f"{score_text(low)}{between}{score_text(high)}"


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
