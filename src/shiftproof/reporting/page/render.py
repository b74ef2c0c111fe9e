"""Assemble the sections and render the page: one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftproof.inference.expected import Expected
from shiftproof.reporting.diagnosis import amounts_table
from shiftproof.reporting.page.charts import (
    baseline_plot,
    cost_plot,
    learning_curves,
    rank_plot,
    training_plot,
    training_sentence,
)
from shiftproof.reporting.page.evidence import Evidence
from shiftproof.reporting.page.expectation import (
    HeldOut,
    answer_sections,
    expectation_blocks,
    figures_of,
    remarks_of,
)
from shiftproof.reporting.page.sentences import lead
from shiftproof.reporting.page.shifts import diagnosis_blocks, output_shift_table, words_blocks
from shiftproof.reporting.page.summary import (
    facts,
    figures,
    hparams_table,
    other_selections,
    provenance_facts,
    sentence,
    settings_table,
    title,
)
from shiftproof.reporting.page.sweeps import averages_table, dataset_table, heat_map
from shiftproof.reporting.page.values import Block, Fact, Page, Section, Value, blocks
from shiftproof.reporting.table import Table
from shiftproof.reporting.words import capital, selector_explained, selector_name
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
        first = self.held_out[0]
        return None if first.expected.score(first.expected.metric) is None else first


def results_page(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    baseline: str | None = "erm",
    source: Source | None = None,
) -> str:
    """Return the page as HTML; the first of several selectors is the main one."""
    page = page_values(outcomes, all_results, baseline, source or Source())
    style, script = (
        (files(__package__) / "templates" / name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
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


def page_values(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    baseline: str | None,
    source: Source,
) -> Page:
    """Return the content of the page, without sections that have no values."""
    with_numbers = [results for results in all_results if results.has_numbers]
    if source.model is not None and len({outcome.algorithm for outcome in outcomes}) == 1:
        page = _of_model(source.model, outcomes, with_numbers, source)
    else:
        page = _of_sweep(outcomes, with_numbers, baseline, source)
    return replace(page, sections=[section for section in page.sections if section.blocks])


def _of_sweep(
    outcomes: Sequence[Run],
    all_results: Sequence[SelectionResults],
    baseline: str | None,
    source: Source,
) -> Page:
    """Return the page of several algorithms, or of runs without predictions."""
    main = all_results[0] if all_results else None
    training = blocks(training_plot(*source.training)) if source.training else []
    shifts = [block for diagnosis in source.diagnoses for block in diagnosis_blocks(diagnosis)]
    origin = facts(outcomes, all_results, source.paths, source.command, source.sweeps, source.notes)
    against = f"Against {algorithm_title(baseline)}" if main and baseline else ""
    return Page(
        title(main, outcomes),
        training_sentence(*source.training) if source.training else sentence(main, baseline),
        [*filter(None, [source.remark]), *other_selections(all_results)],
        figures(main, outcomes),
        [
            *source.first,
            Section("training", "Training domains", training),
            Section("expect", "What to expect", expectation_blocks(source.held_out)),
            Section("accuracy", capital(main.measure) if main else "", _accuracy(all_results)),
            Section(
                "domains", "By test domain", _each(all_results, lambda r: heat_map(r, baseline))
            ),
            Section("baseline", against, _each(all_results, lambda r: baseline_plot(r, baseline))),
            Section("ranks", "Ranks", _each(all_results, rank_plot)),
            Section("curves", "Learning curves", _curves(main, baseline)),
            Section("cost", "Cost", blocks(cost_plot(outcomes, baseline))),
            Section("shift", "Shift", shifts + blocks(output_shift_table(main) if main else None)),
            Section(
                "provenance",
                "Provenance",
                blocks(origin, settings_table(outcomes), hparams_table(outcomes)),
            ),
        ],
    )


def _of_model(
    model: HeldOut, outcomes: Sequence[Run], all_results: Sequence[SelectionResults], source: Source
) -> Page:
    """Return the page of one model: what to expect from it at the next domain."""
    evidence, expected = source.evidence, model.expected
    curves = _curves(all_results[0] if all_results else None, None)
    origin = provenance_facts(outcomes, evidence, source.paths, source.command, source.notes)
    data = dataset_title(outcomes[0].dataset)
    return Page(
        f"{data}: what to expect at the next {evidence.noun}",
        lead(expected, evidence.noun, evidence.label),
        [*filter(None, [source.remark]), *remarks_of(model, evidence)],
        figures_of(expected, evidence),
        [
            *answer_sections(model, source.baselines, evidence, source.diagnoses),
            Section("curves", "Learning curves", curves),
            Section("provenance", "Cost and provenance", blocks(origin)),
        ],
    )


def _accuracy(all_results: Sequence[SelectionResults]) -> list[Block]:
    """Return the tables of every selector: averages, then each dataset."""
    tables = []
    for results in all_results:
        several = len(results.datasets) > 1
        heading, words = capital(selector_name(results)), selector_explained(results)
        if several:
            tables.append(Block(averages_table(results), heading, words=words))
        for dataset in results.datasets:
            table = dataset_table(results, dataset)
            if several and table.rows:
                name = f"{dataset_title(dataset.dataset)}, by test domain"
                tables.append(Block(table, name, folded=True))
            elif table.rows:
                tables.append(Block(table, heading, words=words))
    return tables


def _each(
    all_results: Sequence[SelectionResults], draw: Callable[[SelectionResults], Value | None]
) -> list[Block]:
    """Return the same plot for every selector, all but the first folded."""
    drawn = [(results, value) for results in all_results if (value := draw(results)) is not None]
    return _first_open([(capital(selector_name(results)), value) for results, value in drawn])


def _curves(main: SelectionResults | None, baseline: str | None) -> list[Block]:
    panels = learning_curves(main, baseline) if main else []
    return _first_open([(value.title, value) for value in panels])


def _first_open(values: Sequence[tuple[str, Value]]) -> list[Block]:
    """Return values with their headings, all but the first folded; one needs no heading."""
    return [
        Block(value, heading if len(values) > 1 else "", folded=position > 0)
        for position, (heading, value) in enumerate(values)
    ]


def tables_html(tables: Sequence[Table]) -> str:
    """Return tables as HTML without style or script, for a notebook."""
    parts: Any = _environment().get_template("parts.html").module
    return "\n".join(str(parts.table(table, f"table-{at}")) for at, table in enumerate(tables))


def diagnosis_html(title: str, diagnosis: Mapping[str, Any]) -> str:
    """Return the amounts, the findings and the advice as HTML without style, for a notebook."""
    parts: Any = _environment().get_template("parts.html").module
    notes = blocks([Fact("Notes", diagnosis["notes"])] if diagnosis["notes"] else None)
    content = [Block(amounts_table(diagnosis), title), *notes, *words_blocks(diagnosis)]
    return "\n".join(str(parts.block(block, f"shift-{at}")) for at, block in enumerate(content))


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


def breakable(text: str) -> Markup:
    """Return a name that may wrap between its parts.

    >>> breakable("art_painting<"), breakable("OfficeHome")
    (Markup('art_<wbr>painting&lt;'), Markup('Office<wbr>Home'))
    """
    seams = r"(?<=[_/=-])(?=\w)|(?<=[a-z])(?=[A-Z])"
    return Markup("<wbr>").join(re.split(seams, text))


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows an inline element."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
