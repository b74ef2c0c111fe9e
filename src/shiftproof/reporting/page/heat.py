"""The heat map: where an algorithm is better or worse than the baseline."""

from __future__ import annotations

from bisect import bisect_left

from shiftproof.core.text import MINUS
from shiftproof.reporting.page.axes import signed
from shiftproof.reporting.page.comparable import best_first, shown_domains
from shiftproof.reporting.page.tables import runs_of
from shiftproof.reporting.page.values import HeatCell, HeatMap
from shiftproof.reporting.table import NOTHING
from shiftproof.reporting.words import what_the_numbers_are
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles

# The boundaries between colours, in points of accuracy.
LIMITS = (0.5, 2.0, 5.0, 10.0)


def level(difference: float) -> int:
    """Return the colour of a difference in points, from -4 to 4.

    >>> [level(d) for d in (0.3, 0.6, -2.0, -30.0)]
    [0, 1, -1, -4]
    """
    steps = bisect_left(LIMITS, abs(difference))
    return steps if difference > 0 else -steps


def heat_map(results: SelectionResults, baseline: str | None) -> HeatMap | None:
    """Return differences by test domain to the baseline, or to the mean of all if there is none.

    The baseline's own row shows its accuracies.  With one algorithm or one test domain, return
    None: the table says it all.
    """
    places = [(d, at) for d in results.datasets for at in shown_domains(d)]
    names = best_first(results)
    if baseline in names:
        names = [baseline, *(name for name in names if name != baseline)]
    else:
        baseline = None
    if len(names) < 2 or len(places) < 2:
        return None
    rows: list[tuple[str, list[HeatCell]]] = [(algorithm_title(name), []) for name in names]
    for dataset, at in places:
        found = {name: dataset.cells[name, at] for name in names}
        means = {name: each.mean for name, cell in found.items() if (each := cell.estimate)}
        reference = means.get(baseline) if baseline else sum(means.values()) / max(len(means), 1)
        for (_, cells), name in zip(rows, names, strict=True):
            mean = means.get(name)
            if mean is None:
                cells.append(HeatCell(NOTHING, None))
            elif name == baseline or reference is None:
                cells.append(HeatCell(f"{mean:.1f}", None, runs_of(found[name])))
            else:
                # The difference of the numbers as printed, so that the reader can check it.
                difference = round(mean, 1) - round(reference, 1)
                runs = runs_of(found[name])
                cells.append(HeatCell(signed(difference), level(round(difference, 1)), runs))
    groups = []
    for dataset in results.datasets:
        titles = domain_titles(dataset.dataset, dataset.domains)
        shown = [titles[at] for at in shown_domains(dataset)]
        if shown:
            groups.append((dataset_title(dataset.dataset), shown))
    notes = [what_the_numbers_are(results, results.datasets)]
    if baseline:
        against = algorithm_title(baseline)
        what = "accuracies" if results.measure == "accuracy" else results.measure
        notes.insert(0, f"The row of {against} has its {what} (%), the others their distance.")
    else:
        against = "the mean of all algorithms"
    title = f"Difference to {against} in points of {results.measure}"
    return HeatMap(title, groups, rows, notes, _legend(), bool(baseline))


def _legend() -> list[tuple[int, str]]:
    ends = [f"{limit:g}" for limit in LIMITS]
    below = [(-4, f"below {MINUS}{ends[3]}")]
    below += [(-n, f"{MINUS}{ends[n]} to {MINUS}{ends[n - 1]}") for n in (3, 2, 1)]
    above = [(n, f"{ends[n - 1]} to {ends[n]}") for n in (1, 2, 3)]
    return [*below, (0, f"within {ends[0]}"), *above, (4, f"above {ends[3]}")]
