"""Assemble the sections and render the page: one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftproof.inference.expected import Expected
from shiftproof.reporting.page.answer.evidence import Evidence
from shiftproof.reporting.page.answer.lead import lead
from shiftproof.reporting.page.answer.provenance import provenance_facts
from shiftproof.reporting.page.answer.sections import (
    answer_sections,
    figures_of,
    remarks_of,
)
from shiftproof.reporting.page.curves import learning_curves
from shiftproof.reporting.page.dot_plots import baseline_plot, cost_plot, rank_plot
from shiftproof.reporting.page.expectation import HeldOut, expectation_blocks
from shiftproof.reporting.page.heat import heat_map
from shiftproof.reporting.page.provenance import facts, hparams_table, settings_table
from shiftproof.reporting.page.shifts import diagnosis_blocks, output_shift_table
from shiftproof.reporting.page.summary import figures, other_selections, sentence, title
from shiftproof.reporting.page.tables import averages_table, dataset_table
from shiftproof.reporting.page.training_domains import training_plot, training_sentence
from shiftproof.reporting.page.values import Block, Page, Section
from shiftproof.reporting.page.words import selector_explained, selector_name
from shiftproof.reporting.table import Table
from shiftproof.reporting.words import capital
from shiftproof.sweeps.aggregate import SelectionResults
from shiftproof.sweeps.domainbed.names import algorithm_title, dataset_title
from shiftproof.sweeps.results import Run


@dataclass(frozen=True)
class Source:
    """What the page shows besides the runs.

    ``paths`` are where the runs were read from, ``command`` is the command that made the page,
    ``sweeps`` are the settings of sweeps, and ``diagnoses`` are what `ShiftReport.save` wrote.
    ``remark`` is a sentence to put below the first, ``notes`` come from `run_notes`, and
    ``held_out`` are the predictions on held-out domains.  ``baselines`` are other models on the
    same domains, by title, and ``evidence`` is what `study` collected from the data.  ``training``
    is the accuracy of a model on its training domains, with a note, and ``first`` are sections to
    put before the others.
    """

    paths: Sequence[str] = ()
    command: str = ""
    sweeps: Sequence[Mapping[str, Any]] = ()
    diagnoses: Sequence[Mapping[str, Any]] = ()
    remark: str = ""
    notes: Sequence[str] = ()
    held_out: Sequence[HeldOut] = ()
    baselines: Mapping[str, Expected] = field(default_factory=dict)
    evidence: Evidence = field(default_factory=Evidence)
    training: tuple[Mapping[str, float], str] | None = None
    first: Sequence[Section] = ()

    @property
    def model(self) -> HeldOut | None:
        """The model that the page is about; None for several, or fewer than two scored domains."""
        if len(self.held_out) != 1 or len(self.held_out[0].expected.outputs) < 2:
            return None
        own = self.held_out[0]
        return None if own.expected.score(own.expected.metric) is None else own


def results_page(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    baseline: str | None = "erm",
    source: Source | None = None,
) -> str:
    """Return the page as HTML; the first of several selectors is the main one."""
    return _render(page_values(outcomes, all_results, baseline, source or Source()))


def page_values(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    baseline: str | None,
    source: Source,
) -> Page:
    """Return the content of the page, without sections that have no values."""
    found = [results for results in all_results if results.has_numbers]
    main = found[0] if found else None
    if source.model is not None and len({outcome.algorithm for outcome in outcomes}) == 1:
        return _answer(source.model, outcomes, found, source)
    sections = [
        *source.first,
        *_training(source.training),
        Section("expect", "What to expect", expectation_blocks(source.held_out)),
        Section("accuracy", capital(main.measure) if main else "", _accuracy(found)),
        Section("domains", "By test domain", _by_selector(found, "heat", heat_map, baseline)),
        Section(
            "baseline",
            _against(main, baseline),
            _by_selector(found, "dots", baseline_plot, baseline),
        ),
        Section("ranks", "Ranks", _by_selector(found, "dots", lambda r, _: rank_plot(r), None)),
        Section("curves", "Learning curves", _curves(main, baseline)),
        Section("cost", "Cost", _blocks("dots", cost_plot(outcomes, baseline))),
        Section("shift", "Shift", _shift(main, source.diagnoses)),
        Section("provenance", "Provenance", _provenance(outcomes, found, source)),
    ]
    return Page(
        title(main, outcomes),
        training_sentence(*source.training) if source.training else sentence(main, baseline),
        [*([source.remark] if source.remark else []), *other_selections(found)],
        figures(main, outcomes),
        [section for section in sections if section.blocks],
    )


def _answer(
    own: HeldOut,
    outcomes: Sequence[Run],
    found: Sequence[SelectionResults],
    source: Source,
) -> Page:
    """Return the page of one model: what to expect from it at the next domain."""
    evidence, expected = source.evidence, own.expected
    curves = _curves(found[0] if found else None, None)
    origin = provenance_facts(outcomes, evidence, source.paths, source.command, source.notes)
    sections = [
        *answer_sections(own, source.baselines, evidence, source.diagnoses),
        Section("curves", "Learning curves", curves),
        Section("provenance", "Cost and provenance", [Block("facts", origin)]),
    ]
    data = dataset_title(outcomes[0].dataset)
    return Page(
        f"{data}: what to expect at the next {evidence.noun}",
        lead(expected, evidence.noun, evidence.label),
        [*([source.remark] if source.remark else []), *remarks_of(own, evidence)],
        figures_of(expected, evidence),
        [section for section in sections if section.blocks],
    )


def _training(found: tuple[Mapping[str, float], str] | None) -> list[Section]:
    blocks = [] if found is None else [Block("dots", training_plot(*found))]
    return [Section("training", "Training domains", blocks)]


def _against(main: SelectionResults | None, baseline: str | None) -> str:
    return f"Against {algorithm_title(baseline)}" if main and baseline else ""


def _accuracy(found: Sequence[SelectionResults]) -> list[Block]:
    """Return the tables of every selector: averages, then each dataset."""
    blocks = []
    for results in found:
        several = len(results.datasets) > 1
        heading, words = _heading(results), selector_explained(results)
        if several:
            blocks.append(Block("table", averages_table(results), heading, words=words))
        for dataset in results.datasets:
            table = dataset_table(results, dataset)
            if several and table.rows:
                name = f"{dataset_title(dataset.dataset)}, by test domain"
                blocks.append(Block("table", table, name, folded=True))
            elif table.rows:
                blocks.append(Block("table", table, heading, words=words))
    return blocks


def _by_selector(
    found: Sequence[SelectionResults], kind: str, make: Any, baseline: str | None
) -> list[Block]:
    """Return the same plot for every selector, all but the first folded."""
    made = [(results, make(results, baseline)) for results in found]
    values = [(results, value) for results, value in made if value is not None]
    several = len(values) > 1
    return [
        Block(kind, value, _heading(results) if several else "", folded=position > 0)
        for position, (results, value) in enumerate(values)
    ]


def _curves(main: SelectionResults | None, baseline: str | None) -> list[Block]:
    panels = learning_curves(main, baseline) if main else []
    several = len(panels) > 1
    return [
        Block("panels", each, each.title if several else "", folded=position > 0)
        for position, each in enumerate(panels)
    ]


def _shift(main: SelectionResults | None, diagnoses: Sequence[Mapping[str, Any]]) -> list[Block]:
    blocks = [block for each in diagnoses for block in diagnosis_blocks(each)]
    return [*blocks, *_blocks("table", output_shift_table(main) if main else None)]


def _provenance(
    outcomes: Sequence[Run], found: Sequence[SelectionResults], source: Source
) -> list[Block]:
    said = facts(outcomes, found, source.paths, source.command, source.sweeps, notes=source.notes)
    return [
        Block("facts", said),
        *_blocks("table", settings_table(outcomes)),
        *_blocks("table", hparams_table(outcomes)),
    ]


def _blocks(kind: str, value: object) -> list[Block]:
    return [] if value is None else [Block(kind, value)]


def _heading(results: SelectionResults) -> str:
    name = selector_name(results)
    return name[0].upper() + name[1:]


def tables_html(tables: Sequence[Table]) -> str:
    """Return tables as HTML without style or script, for a notebook."""
    parts: Any = _environment().get_template("parts.html").module
    return "\n".join(str(parts.table(table, f"table-{at}")) for at, table in enumerate(tables))


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment


def _render(page: Page) -> str:
    style, script = (_text(name) for name in ("page.css", "page.js"))
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


def breakable(text: str) -> Markup:
    """Return a name that may wrap between its parts.

    >>> breakable("art_painting<"), breakable("OfficeHome")
    (Markup('art_<wbr>painting&lt;'), Markup('Office<wbr>Home'))
    """
    seams = r"(?<=[_/=-])(?=\w)|(?<=[a-z])(?=[A-Z])"
    return Markup("<wbr>").join(re.split(seams, text))


def _text(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline element."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
