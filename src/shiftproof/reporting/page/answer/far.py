"""The share of inputs that are unlike the training data, by held-out domain."""

from __future__ import annotations

from shiftproof.inference.expected import Expected
from shiftproof.metrics import METRICS
from shiftproof.reporting.page.answer.card import accuracies
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.lead import nouns
from shiftproof.reporting.page.answer.mean_baseline import values_of
from shiftproof.reporting.page.axes import Axis
from shiftproof.reporting.page.values import DotPlot, Mark
from shiftproof.reporting.table import NOTHING, Column, Row, Table


def far_plot(expected: Expected, evidence: Evidence) -> DotPlot | None:
    """Return one bar per domain; None if no model can tell which inputs are far."""
    shares = {domain: far for domain, far in evidence.far.items() if far is not None}
    if not shares:
        return None
    scored = "MAE" if expected.numbers else "Accuracy (%)"
    scores = _scores(expected)
    axis = Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0))
    ordered = sorted(shares, key=lambda domain: -shares[domain])
    others = nouns(evidence.noun)
    rows = [
        Row.of(
            domain,
            f"{100 * shares[domain]:.1f}",
            scores.get(domain, NOTHING),
        )
        for domain in ordered
    ]
    note = (
        f"A row is far if at most 1% of the rows of the training {others} that were set aside are"
        f" as far from them. The model answers for it all the same: read such answers with care."
    )
    table = Table(
        f"Rows unlike those of the other {others}",
        (Column("Far (%)"), Column(scored, -1 if expected.numbers else 1)),
        tuple(rows),
        notes=(note,),
        heads=(evidence.noun[:1].upper() + evidence.noun[1:],),
        by=0,
    )
    tips = [f"{shares[domain]:.1%} of the rows of {domain} are far" for domain in ordered]
    marks = [[Mark("bar", 0.0, axis.percent(100 * shares[domain]))] for domain in ordered]
    return DotPlot(table, "Share of rows (%)", axis.percent_ticks(), marks, (), tips)


def _scores(expected: Expected) -> dict[str, str]:
    """Return the MAE or the accuracy on each domain, as text."""
    if expected.numbers:
        return {
            d: METRICS.get("mae").text(value) for d, value in values_of(expected, "mae").items()
        }
    return {d: f"{100 * value:.1f}" for d, value in accuracies(expected).items()}
