"""Learning curves: accuracy over the steps of the selected runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shiftproof.core.text import counted
from shiftproof.reporting.page.axes import Axis, short
from shiftproof.reporting.page.comparable import best_first, shown_domains
from shiftproof.reporting.page.values import Line, Panel, Panels, Tick
from shiftproof.reporting.page.words import selector_name
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import capital, joined
from shiftproof.sweeps.aggregate import DatasetResults, SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import Evaluation, Run
from shiftproof.sweeps.selection.base import mean_if_all

# With more algorithms than this, only the best and the baseline are drawn.
MOST_DRAWN = 4
# The edges of a chart, in an SVG that is 240 wide.
LEFT, RIGHT, TOP, BOTTOM = 38.0, 230.0, 24.0, 136.0
KINDS = {
    "test": "test domain",
    "validation": "training domains, samples not trained on (mean)",
    "training": "training domains, samples trained on (mean)",
}
Points = list[tuple[int, float]]


@dataclass(frozen=True)
class _Drawn:
    """A run to draw: its curves in percent by kind, and the reported step."""

    algorithm: str
    test_domain: str
    run: Run
    curves: dict[str, Points]
    step: int


class Frame(NamedTuple):
    """The axes that all panels of a dataset share."""

    x: Axis
    y: Axis

    def place(self, step: float, value: float) -> tuple[float, float]:
        """Return the position of a point in the SVG."""
        across = LEFT + (RIGHT - LEFT) * self.x.share(step)
        return round(across, 1), round(BOTTOM - (BOTTOM - TOP) * self.y.share(value), 1)


def learning_curves(results: SelectionResults, baseline: str | None) -> list[Panels]:
    """Return a set of panels for each dataset whose runs were evaluated more than once."""
    found = []
    for dataset in results.datasets:
        names = [n for n in best_first(results) if any(c.selections for c in dataset.row(n))]
        shown = names if len(names) <= MOST_DRAWN else _some_of(names, baseline)
        drawn = list(_selected(dataset, shown))
        if any(len(points) > 1 for each in drawn for points in each.curves.values()):
            found.append(_panels(results, dataset, drawn, len(names)))
    return found


def _some_of(names: Sequence[str], baseline: str | None) -> list[str]:
    """Return the first algorithms, with the baseline among them."""
    first = list(names[:MOST_DRAWN])
    if baseline in names and baseline not in first:
        first[-1] = str(baseline)
    return first


def _selected(dataset: DatasetResults, names: Sequence[str]) -> Iterator[_Drawn]:
    titles = domain_titles(dataset.dataset, dataset.domains)
    for name in names:
        for at in shown_domains(dataset):
            selections = dataset.cells[name, at].selections
            if selections:
                selection = selections[min(selections)]
                run = selection.run
                yield _Drawn(name, titles[at], run, curves_of(run, at), selection.step)


def curves_of(run: Run, test_domain: int) -> dict[str, Points]:
    """Return the curves in percent by kind, without kinds that were never measured."""
    curves: dict[str, Points] = {}
    for evaluation in run.evaluations:
        for kind, value in _measured(evaluation, run, test_domain):
            if value is not None:
                curves.setdefault(kind, []).append((evaluation.step, 100 * value))
    return curves


def _measured(
    evaluation: Evaluation, run: Run, test_domain: int
) -> Iterator[tuple[str, float | None]]:
    trained = [at for at in range(len(run.domains)) if at not in run.test_domains]
    yield "test", evaluation.inside[test_domain]
    yield "validation", mean_if_all(evaluation.outside[at] for at in trained)
    yield "training", mean_if_all(evaluation.inside[at] for at in trained)
    for name, value in evaluation.extras:
        yield f"extra:{name}", value


def _panels(
    results: SelectionResults, dataset: DatasetResults, drawn: Sequence[_Drawn], there: int
) -> Panels:
    values = [v for each in drawn for points in each.curves.values() for _, v in points]
    steps = [step for each in drawn for points in each.curves.values() for step, _ in points]
    # R² has no lower bound.
    within = (0.0 if min(values) >= 0 else -math.inf, 100.0)
    frame = Frame(Axis.over([0, *steps], count=3), Axis.around(values, 4, within))
    shown = list(dict.fromkeys(algorithm_title(each.algorithm) for each in drawn))
    trial = min(dataset.trials)
    notes = [
        f"{capital(dataset.measure)} (%) over steps; {selector_name(results)};"
        f" {'seed' if dataset.standalone else 'trial'} {trial}."
        " The ring marks the step that the tables report."
    ]
    if len(shown) < there:
        notes.append(f"Drawn are {joined(shown)}, of {counted(there, 'algorithm')}.")
    kinds = list(dict.fromkeys(kind for each in drawn for kind in each.curves))
    return Panels(
        dataset_title(dataset.dataset),
        [_panel(each, frame) for each in drawn],
        _across(len({each.test_domain for each in drawn}), len(drawn)),
        "Step",
        f"{capital(dataset.measure)} (%)",
        [Tick(frame.place(step, frame.y.low)[0], short(step)) for step in frame.x.ticks],
        [Tick(frame.place(frame.x.low, value)[1], short(value)) for value in frame.y.ticks],
        [(_class(kind), _name(kind)) for kind in sorted(kinds, key=_order)],
        notes,
        _values(dataset, drawn),
        BOTTOM,
    )


def _across(domains: int, panels: int) -> int:
    """Return the number of panels per row, so that an algorithm's panels stay together."""
    if domains == 1:
        return min(panels, 4)
    return {2: 4, 3: 3, 4: 4}.get(domains, 3 if domains % 3 == 0 else 4)


def _panel(each: _Drawn, frame: Frame) -> Panel:
    lines = []
    for kind in sorted(each.curves, key=_order, reverse=True):
        points = [frame.place(*point) for point in each.curves[kind]]
        path = "M" + "L".join(f"{a:g} {b:g}" for a, b in points)
        lines.append(Line(_class(kind), path))
    test = dict(each.curves.get("test", []))
    selected = frame.place(each.step, test[each.step]) if each.step in test else None
    title = f"{algorithm_title(each.algorithm)} · {each.test_domain}"
    return Panel(title, _in_words(each), lines, selected)


def _in_words(each: _Drawn) -> str:
    """Describe a panel for readers who cannot see it."""
    parts = [
        f"{_name(kind)} from {points[0][1]:.1f}% to {points[-1][1]:.1f}%"
        for kind, points in sorted(each.curves.items(), key=lambda item: _order(item[0]))
    ]
    return (
        f"{algorithm_title(each.algorithm)}, test domain {each.test_domain}: {'; '.join(parts)};"
        f" reported at step {each.step:,}"
    )


def _values(dataset: DatasetResults, drawn: Sequence[_Drawn]) -> Table:
    """Return the values of the panels at the reported step, and at the end."""
    kinds = [k for k in ("validation", "training") if any(k in each.curves for each in drawn)]
    rows = []
    for each in drawn:
        at_step = {kind: dict(points).get(each.step) for kind, points in each.curves.items()}
        last = each.curves.get("test", [(0, None)])[-1][1]
        cells = [
            each.test_domain,
            *([] if each.run.standalone else [str(each.run.hparams_seed)]),
            f"{each.step}",
            *(_percent(at_step.get(kind)) for kind in (*kinds, "test")),
            _percent(last),
        ]
        rows.append(Row.of(algorithm_title(each.algorithm), *cells))
    seeds = [] if dataset.standalone else [Column("Hyper-parameter seed")]
    names = {"validation": "Validation", "training": "Training"}
    columns = [
        Column("Test domain", words=True),
        *seeds,
        Column("Reported step"),
        *(Column(names[kind], 1) for kind in kinds),
        Column("Test", 1),
        Column("Test at the end", 1),
    ]
    title = f"{dataset_title(dataset.dataset)}: the runs drawn, {dataset.measure} in %"
    return Table(title, tuple(columns), tuple(rows))


def _percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _class(kind: str) -> str:
    return "extra" if kind.startswith("extra:") else kind


def _name(kind: str) -> str:
    return KINDS.get(kind) or kind.removeprefix("extra:")


def _order(kind: str) -> int:
    return [*KINDS, kind].index(kind)
