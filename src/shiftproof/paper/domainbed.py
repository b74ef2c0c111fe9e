"""Tables under the DomainBed protocol: a row per algorithm or variant, a column per test domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from shiftproof.paper.comparison import Cell, Comparison, Row, measured
from shiftproof.paper.published import PaperRow, PaperTable, paper_table
from shiftproof.paper.studies import Block, Choice, Findings, Scale, Study
from shiftproof.sweeps.aggregate import DIVERGED, CellResults, DatasetResults, aggregate
from shiftproof.sweeps.jobs import Variant
from shiftproof.sweeps.plan import combined
from shiftproof.sweeps.presets import Preset, preset_named
from shiftproof.sweeps.results import Run
from shiftproof.sweeps.selection import SELECTORS

PRESETS: dict[Scale, str] = {"full": "domainbed", "lite": "lite"}


class Part(NamedTuple):
    """One table of a study: the paper's table, its dataset, and the variant of each of its rows."""

    table: PaperTable
    dataset: str
    rows: tuple[Variant, ...]


class ProtocolStudy(Study):
    """Tables of accuracies on held-out domains, selected by ``selectors``."""

    selectors: ClassVar[Mapping[Scale, tuple[str, ...]]] = dict.fromkeys(PRESETS, ("oracle",))
    draws: ClassVar[Mapping[Scale, int]] = {"full": 20, "lite": 3}
    trials: ClassVar[Mapping[Scale, int]] = {"full": 3, "lite": 3}

    def parts(self) -> list[Part]:
        """Return the tables of the study."""
        raise NotImplementedError

    def preset(self, scale: Scale) -> Preset:
        """Return the published size, or the reduced size (`lite`)."""
        return preset_named(PRESETS[scale])

    def selectors_of(self, choice: Choice) -> tuple[str, ...]:
        """Return the requested selectors, or the study's own."""
        return choice.selection or self.selectors[choice.scale]

    def blocks(self, choice: Choice) -> list[Block]:
        """Return the runs of each dataset; runs that several tables share are listed once."""
        needs = combined([SELECTORS.get(name).needs for name in self.selectors_of(choice)])
        rows: dict[str, dict[str, Variant]] = {}
        printed: dict[str, str] = {}
        for part in self.parts():
            rows.setdefault(part.dataset, {}).update({row.name: row for row in part.rows})
            printed.update({row.name: row.ours for row in part.table.rows if not row.marks})
        return [
            Block(
                name,
                choice.of_rows(list(rows[name].values()), printed),
                needs,
                choice.n_hparams or self.draws[choice.scale],
                choice.runs or self.trials[choice.scale],
                choice.test_domains,
            )
            for name in choice.of_datasets(list(rows))
        ]

    def find(self, outcomes: Sequence[Run], choice: Choice) -> Findings:
        """Return a comparison for each table that has runs."""
        tables = [
            compare_rows(part, outcomes, choice, selector)
            for part in self.parts()
            for selector in self.selectors_of(choice)
        ]
        return Findings(tuple(table for table in tables if table is not None))


def compare_rows(
    part: Part, outcomes: Sequence[Run], choice: Choice, selector: str = "oracle"
) -> Comparison | None:
    """Return the paper's table for one dataset with ours beside it; None if we have no numbers.

    A stand-in with other domains has its own columns, without numbers of the paper.  The paper has
    no numbers for selectors other than its own, either.
    """
    stand_in = choice.stand_in_of(part.dataset)
    results = results_of(outcomes, choice.name_of(part.dataset), part.rows, selector)
    if results is None:
        return None
    table = part.table
    known = [column.ours for column in table.columns]
    same = set(known) == set(results.domains)
    domains = known if same else list(results.domains)
    headings = [column.name for column in table.columns] if same else list(results.domains)
    published = same and selector == table.selection
    rows = []
    for printed, variant in zip(table.rows, part.rows, strict=True):
        papers = (*printed.values, printed.average) if published else (None,) * (len(domains) + 1)
        of_domains = [_cell_of(results, variant.name, name) for name in domains]
        ours = [
            [100 * accuracy for _, accuracy in sorted(cell.accuracies.items())] if cell else []
            for cell in of_domains
        ]
        ours.append([*trial_averages(results, variant.name).values()])
        # The best of fewer draws is lower.
        whole = [cell is not None and not cell.incomplete for cell in of_domains]
        whole.append(all(whole))
        cells = map(Cell, papers, map(measured, ours), whole)
        rows.append(Row(printed.name, printed.marks, tuple(cells)))
    notes = protocol_notes(results, selector, choice.scale)
    if stand_in:
        notes.append(f"Ours are on {stand_in} in place of {part.dataset}.")
    title = f"{part.dataset} ({table.source})"
    if stand_in:
        title = f"{stand_in} in place of {title}"
    if selector != "oracle":
        title += f", selection by {selector}"
    return Comparison(
        part.table.name if selector == "oracle" else f"{part.table.name}-{selector}",
        title,
        (*headings, "Average"),
        tuple(rows),
        table.marks,
        comparable=is_comparable(results, part.dataset, choice),
        notes=(*notes, *table.notes),
    )


def results_of(
    outcomes: Sequence[Run], dataset: str, rows: Sequence[Variant], selector: str
) -> DatasetResults | None:
    """Return the results of some rows on a dataset, or None if there are no numbers."""
    names = {row.name for row in rows}
    runs = [run for run in outcomes if run.dataset == dataset and run.algorithm in names]
    if not runs:
        return None
    (results,) = aggregate(runs, SELECTORS.get(selector)()).datasets
    return results if results.has_numbers else None


def is_comparable(results: DatasetResults, dataset: str, choice: Choice) -> bool:
    """Return whether our runs match the paper's: published size and data, and as many draws."""
    draws = ProtocolStudy.draws["full"]
    return (
        choice.scale == "full"
        and choice.stand_in_of(dataset) is None
        and len(results.draws) == draws
    )


def protocol_notes(results: DatasetResults, selector: str, scale: Scale) -> list[str]:
    """Return notes on how our numbers were obtained, and on missing runs."""
    preset = preset_named(PRESETS[scale])
    sized = f"{preset.steps:,} steps" + (", small networks and frozen features" * (scale == "lite"))
    draws, trials = len(results.draws), len(results.trials)
    chosen = [run for cell in results.cells.values() for run in cell.selections.values()]
    if any(selection.run.config.get("precision") == "bf16" for selection in chosen):
        sized += ", bf16"
    notes = [
        f"Ours: preset {preset.name} ({sized}); selection by {selector}; {draws}"
        f" draw{'s' * (draws > 1)} of hyper-parameters, {trials} trial{'s' * (trials > 1)}."
    ]
    if scale == "lite":
        notes.append("Compare our numbers with each other, not with the paper's.")
    elif draws != ProtocolStudy.draws["full"]:
        notes.append(
            f"The paper chooses among {ProtocolStudy.draws['full']} draws: no difference is shown."
        )
    lacking = Counter(
        "diverged" if run.reason == DIVERGED else "missing"
        for cell in results.cells.values()
        for run in cell.missing
    )
    if lacking:
        counted = " and ".join(f"{count} {reason}" for reason, count in sorted(lacking.items()))
        notes.append(f"Runs of these rows, domains, draws and trials: {counted}.")
    return notes


def trial_averages(results: DatasetResults, row: str) -> dict[int, float]:
    """Return the average over test domains in percent, for each trial that has all domains."""
    if row not in results.algorithms or not results.covers(row):
        return {}
    cells = results.row(row)
    whole = set.intersection(*(set(cell.accuracies) for cell in cells))
    return {
        trial: 100 * sum(cell.accuracies[trial] for cell in cells) / len(cells)
        for trial in sorted(whole)
    }


def _cell_of(results: DatasetResults, row: str, domain: str | None) -> CellResults | None:
    if row not in results.algorithms or domain not in results.domains:
        return None
    return results.cells[row, results.domains.index(domain)]


# Rows by the marks that the paper gives them.
Marked = dict[tuple[str, ...], Variant]

WITHOUT_GRADIENTS = Variant("idm without gradients", "idm", {"match_gradients": False})
WITHOUT_REPRESENTATIONS = Variant(
    "idm without representations", "idm", {"match_representations": False}
)
WITHOUT_WARMUP = Variant("idm without warm-up", "idm", {"gradient_warmup": 0})
WITHOUT_AVERAGE = Variant("idm without moving average", "idm", {"gradient_ema": 0.0})

# Keys: gradient alignment, representation alignment, warm-up, moving average.  Warm-up and moving
# average apply to gradients only: without gradient alignment there is neither.
COMPONENTS: Marked = {
    ("no", "yes", "no", "no"): WITHOUT_GRADIENTS,
    ("yes", "no", "yes", "yes"): WITHOUT_REPRESENTATIONS,
    ("yes", "yes", "no", "yes"): WITHOUT_WARMUP,
    ("yes", "yes", "yes", "no"): WITHOUT_AVERAGE,
}


class Ablation(ProtocolStudy):
    """Tables of variants of IDM, which rows have by the marks that the paper gives them.

    ``tables`` are the paper's, with their datasets; another row is the algorithm itself.
    """

    folder = "ablations"
    tables: ClassVar[Mapping[str, str]]
    variants: ClassVar[Marked] = {}

    def parts(self) -> list[Part]:
        """Return the tables."""
        return [
            Part(table, dataset, tuple(map(self._variant, table.rows)))
            for table, dataset in ((paper_table(t), dataset) for t, dataset in self.tables.items())
        ]

    def _variant(self, row: PaperRow) -> Variant:
        plain = Variant.plain(row.ours)
        return plain if row.ours == "erm" else self.variants.get(row.marks, plain)


class Components(Ablation):
    """IDM without each of its parts."""

    name = "ablation-components"
    tables: ClassVar = {f"ablation-components-{d}": d for d in ("colored-mnist", "office-home")}
    variants: ClassVar = COMPONENTS


class Gradients(Ablation):
    """IDM with and without gradient alignment."""

    name = "ablation-gradient"
    tables: ClassVar = {f"ablation-gradient-{dataset}": dataset for dataset in ("vlcs", "pacs")}
    variants: ClassVar = {("no",): WITHOUT_GRADIENTS}


class Representations(Ablation):
    """IDM with and without representation alignment."""

    name = "ablation-representation"
    tables: ClassVar = {"ablation-representation": "rotated-mnist"}
    variants: ClassVar = {("no",): WITHOUT_REPRESENTATIONS}


class Matching(Ablation):
    """Matching means (IGA), variances (Fishr), both, or whole distributions (IDM).

    According to the text, IDM is used here without representation alignment; the printed numbers
    are those of full IDM, and so are ours.
    """

    name = "ablation-pdm"
    tables: ClassVar = {"ablation-pdm": "colored-mnist"}
