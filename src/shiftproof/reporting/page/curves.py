"""Learning curves: accuracy over the steps of the selected runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shiftproof.core.text import counted
from shiftproof.reporting.page.sweeps import best_first, shown_domains
from shiftproof.reporting.page.values import Axis, Frame, Line, Panel, Panels
from shiftproof.reporting.table import NOTHING, Column, Row, Table
from shiftproof.reporting.words import capital, joined, selector_name
from shiftproof.sweeps.aggregate import DatasetResults, SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title, domain_titles
from shiftproof.sweeps.results import Evaluation, Run
from shiftproof.sweeps.selection.base import mean_if_all

# With more algorithms than this, only the best and the baseline are drawn.
MOST_DRAWN = 4
KINDS = {
    "test": "test domain",
    "validation": "training domains, samples not trained on (mean)",
    "training": "training domains, samples trained on (mean)",
}
Points = list[tuple[int, float]]


class _Drawn(NamedTuple):
    """A run to draw: its curves in percent by kind, and the reported step."""

    algorithm: str
    test_domain: str
    run: Run
    curves: dict[str, Points]
    step: int


def learning_curves(results: SelectionResults, baseline: str | None) -> list[Panels]:
    """Return a set of panels for each dataset whose runs were evaluated more than once."""
    charts = []
    for dataset in results.datasets:
        names = [n for n in best_first(results) if any(c.selections for c in dataset.row(n))]
        chosen = names[:MOST_DRAWN]
        if baseline in names and baseline not in chosen:
            chosen[-1] = str(baseline)
        drawn = list(_selected(dataset, chosen))
        if any(len(points) > 1 for run in drawn for points in run.curves.values()):
            charts.append(_panels(results, dataset, drawn, len(names)))
    return charts


def _selected(dataset: DatasetResults, names: Sequence[str]) -> Iterator[_Drawn]:
    titles = domain_titles(dataset.dataset, dataset.domains)
    for name in names:
        for at in shown_domains(dataset):
            if selections := dataset.cells[name, at].selections:
                first = selections[min(selections)]
                run = first.run
                yield _Drawn(algorithm_title(name), titles[at], run, curves_of(run, at), first.step)


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
    points = [point for run in drawn for curve in run.curves.values() for point in curve]
    values = [value for _, value in points]
    # R² has no lower bound.
    within = (0.0 if min(values) >= 0 else -math.inf, 100.0)
    steps = Axis.over([0, *(step for step, _ in points)], count=3)
    frame = Frame(steps, Axis.around(values, 4, within))
    titles = list(dict.fromkeys(run.algorithm for run in drawn))
    trial = min(dataset.trials)
    notes = [
        f"{capital(dataset.measure)} (%) over steps; {selector_name(results)};"
        f" {'seed' if dataset.standalone else 'trial'} {trial}."
        " The ring marks the step that the tables report."
    ]
    if len(titles) < there:
        notes.append(f"Drawn are {joined(titles)}, of {counted(there, 'algorithm')}.")
    names = dict.fromkeys(kind for run in drawn for kind in run.curves)
    return Panels(
        dataset_title(dataset.dataset),
        [_panel(run, frame) for run in drawn],
        _across(len({run.test_domain for run in drawn}), len(drawn)),
        *("Step", f"{capital(dataset.measure)} (%)"),
        frame,
        [(_class(kind), _name(kind)) for kind in sorted(names, key=_order)],
        notes,
        _values(dataset, drawn),
    )


def _across(domains: int, panels: int) -> int:
    """Return the number of panels per row, so that an algorithm's panels stay together."""
    if domains == 1:
        return min(panels, 4)
    return {2: 4, 3: 3, 4: 4}.get(domains, 3 if domains % 3 == 0 else 4)


def _panel(run: _Drawn, frame: Frame) -> Panel:
    kinds = sorted(run.curves, key=_order)
    lines = [Line(_class(kind), frame.path(run.curves[kind])) for kind in reversed(kinds)]
    test = dict(run.curves.get("test", []))
    selected = frame.place(run.step, test[run.step]) if run.step in test else None
    changes = "; ".join(
        f"{_name(kind)} from {run.curves[kind][0][1]:.1f}% to {run.curves[kind][-1][1]:.1f}%"
        for kind in kinds
    )
    # For readers who cannot see the panel.
    words = (
        f"{run.algorithm}, test domain {run.test_domain}: {changes}; reported at step {run.step:,}"
    )
    return Panel(f"{run.algorithm} · {run.test_domain}", words, lines, selected)


def _values(dataset: DatasetResults, drawn: Sequence[_Drawn]) -> Table:
    """Return the values of the panels at the reported step, and at the end."""
    names = {"validation": "Validation", "training": "Training", "test": "Test"}
    kinds = [k for k in names if k == "test" or any(k in run.curves for run in drawn)]
    rows = []
    for run in drawn:
        at_step = {kind: dict(points).get(run.step) for kind, points in run.curves.items()}
        last = run.curves.get("test", [(0, None)])[-1][1]
        cells = [
            run.test_domain,
            *([] if run.run.standalone else [str(run.run.hparams_seed)]),
            f"{run.step}",
            *(_percent(at_step.get(kind)) for kind in kinds),
            _percent(last),
        ]
        rows.append(Row.of(run.algorithm, *cells))
    columns = [
        Column("Test domain", words=True),
        *([] if dataset.standalone else [Column("Hyper-parameter seed")]),
        Column("Reported step"),
        *(Column(names[kind], 1) for kind in kinds),
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
