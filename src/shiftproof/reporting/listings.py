"""Algorithms and datasets for the terminal: lists, descriptions, and checks of local copies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from shiftproof.core.space import HparamSpec, specs
from shiftproof.core.text import counted
from shiftproof.data import DatasetCard, DatasetSource
from shiftproof.data.base import Source
from shiftproof.data.images.findings import ImageCheck
from shiftproof.data.library.base import Counts, LibraryDataset, LocalCopy, local_copy
from shiftproof.learners.base import Learner
from shiftproof.models import MODELS

# A card names at most this many classes.
MOST_CLASSES = 70
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def _plain_table(*columns: str | Text, title: str | None = None, lines: bool = False) -> Table:
    """Return a table without a frame; with `lines` between rows."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", show_lines=lines
    )
    for name in columns:
        table.add_column(name, no_wrap=name == "name")
    return table


def algorithm_table(algorithms: Mapping[str, type[Learner]]) -> Table:
    """Return one row per algorithm: its family, paper and hyper-parameters."""
    table = _plain_table("name", "family", "paper, and hyper-parameters of its own")
    from shiftproof.learners.algorithms import Algorithm

    common = set(specs(Algorithm.Hparams))
    for name, algorithm in algorithms.items():
        details = Text(algorithm.paper)
        if special := [key for key in specs(algorithm.Hparams) if key not in common]:
            details.append("\n" + ", ".join(special), style="dim")
        table.add_row(Text(name, style="bold"), algorithm.family, details)
    return table


def algorithm_description(name: str, algorithm: type[Learner]) -> Iterator[RenderableType]:
    """Yield an algorithm's maths and hyper-parameters, and those of the networks it can train."""
    yield Text(f"{name} ({algorithm.family}), {algorithm.paper}", style="bold")
    yield from paragraphs(algorithm)
    yield hparam_table(specs(algorithm.Hparams))
    if algorithm.exact:
        return
    # Networks that share hyper-parameters are described once.
    alike: dict[str, tuple[list[str], Mapping[str, HparamSpec]]] = {}
    for name, network in MODELS.items():
        declared = specs(network)
        alike.setdefault(repr(declared), ([], declared))[0].append(name)
    for names, shared in alike.values():
        if shared:
            yield Text(f"Hyper-parameters of the network ({', '.join(names)})", style="bold")
            yield hparam_table(shared)


def paragraphs(documented: type) -> Iterator[RenderableType]:
    """Yield a docstring for the terminal: prose to be re-wrapped, formulas and lists unchanged."""
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        plain = re.sub(r":\w+:`~?([^`]+)`", r"\1", block)
        if block.startswith("|"):
            yield markdown_table(plain)
        elif block.startswith((" ", "=", "1. ", "- ")):
            # Spaces as wide as the removed backticks keep columns aligned.
            yield Text("\n" + re.sub(r"``(.*?)``", r"\1    ", plain))
        else:
            yield Text("\n" + " ".join(plain.replace("``", "").split()))


def markdown_table(block: str) -> Table:
    """Return a table written in Markdown: a header, a line of dashes, and rows."""
    header, _, *rows = ([*map(str.strip, row.strip("|").split("|"))] for row in block.splitlines())
    table = _plain_table(*map(Text, header))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def hparam_table(declared: Mapping[str, HparamSpec]) -> Table:
    """Return each hyper-parameter's default, distribution and meaning."""
    table = _plain_table("name", "default", "drawn from", "meaning")
    for name, spec in declared.items():
        settings = {"": spec.setting, **{f" ({r})": s for r, s in spec.regimes.items()}}
        table.add_row(
            Text(name, style="bold"),
            Text("\n".join(f"{s.default}{where}" for where, s in settings.items())),
            Text("\n".join(str(s.distribution or "fixed") for s in settings.values())),
            Text(spec.help),
        )
    return table


def state(source: type[DatasetSource], held: LocalCopy | None) -> str:
    """Return whether a dataset can be loaded."""
    if absent := [name for name in source.needs if local_copy(name) is None]:
        return f"needs {' and '.join(absent)}"
    if not issubclass(source, LibraryDataset):
        return "in the package"
    if held is None:
        return "not downloaded"
    return "complete" if held.complete else "incomplete"


def dataset_table(
    datasets: Mapping[str, type[DatasetSource]], copies: Mapping[str, LocalCopy | None]
) -> Table:
    """Return a table with one row per dataset."""
    table = _plain_table("name", "state", "description")
    for name, source in datasets.items():
        card, held = source.card, copies.get(name)
        status = Text(state(source, held))
        if held is not None and not held.complete:
            status.append(f"\n{held.images:,} images", "dim")
        details = Text(card.summary)
        size = f"{counted(len(card.counts), 'domain')}, {counted(len(card.classes), 'class')}"
        total = sum(card.counts.values())
        details.append(f"\n{size}" + (f", {total:,} samples" if total else ""), "dim")
        table.add_row(Text(name, style="bold"), status, details)
    return table


def dataset_description(
    name: str, source: type[DatasetSource], held: LocalCopy | None
) -> Iterator[RenderableType]:
    """Yield a dataset's card, counts, sources and options."""
    card = source.card
    yield Text(f"{name}: {card.summary}", style="bold")
    yield from paragraphs(source)
    table = Table(show_header=False)
    domains = ", ".join(
        f"{domain} ({count:,})" if count else domain for domain, count in card.counts.items()
    )
    for key, value in [
        ("state", state(source, held)),
        ("domains", domains),
        (f"{len(card.classes)} classes", _shortened(card.classes)),
        ("input", " × ".join(map(str, card.input_shape))),
        ("regime", card.regime),
        ("backbone", card.backbone),
        ("evaluated every", f"{card.eval_every} steps"),
        ("publication", card.publication),
        ("licence", card.licence),
    ]:
        table.add_row(key, Text(value))
    yield table
    if card.class_counts or held is not None:
        yield counts_table(card, held.counts if held is not None else None)
    if held is not None:
        yield from _notes(held.notes)
    if card.sources:
        yield source_table(card.sources)
    if options := specs(source):
        yield hparam_table(options)


def local_copy_report(source: type[LibraryDataset], held: LocalCopy) -> Iterator[RenderableType]:
    """Yield how much of a dataset is on this machine."""
    published = sum(source.card.counts.values())
    if held.complete:
        yield Text(f"{held.name} is complete: {held.images:,} images", style="green")
    else:
        yield Text(
            f"{held.name} is incomplete: {held.images:,}"
            + (f" of {published:,} images" if published else " images"),
            style="yellow",
        )
        yield counts_table(source.card, held.counts)
    yield from _notes(held.notes)


def counts_table(card: DatasetCard, local: Counts | None) -> Table:
    """Return image counts by class and domain, or by domain only: found and published."""
    title = "images" if local is None else "images on this machine, of those published"
    totals = {
        domain: _of(None if local is None else sum(local[domain]), published)
        for domain, published in card.counts.items()
    }
    by_domain = list(totals) if card.class_counts else ["images"]
    table = _plain_table("class" if card.class_counts else "domain", title=title)
    for name in by_domain:
        table.add_column(name, justify="right")
    if not card.class_counts:
        for domain, total in totals.items():
            table.add_row(domain, total)
        return table
    for position, label in enumerate(card.classes):
        cells = [
            _of(None if local is None else local[domain][position], by_class[position])
            for domain, by_class in card.class_counts.items()
        ]
        table.add_row(label, *cells)
    table.add_section()
    table.add_row("all", *totals.values(), style="bold")
    return table


def source_table(sources: Sequence[Sequence[Source]]) -> Table:
    """Return the links of each file, and how it is verified."""
    table = _plain_table(title="sources", lines=True)
    table.add_column("file", overflow="fold")
    table.add_column("link and verification", overflow="fold")
    for alternatives in sources:
        for position, source in enumerate(alternatives):
            table.add_row(
                Text("or " * (position > 0) + source.filename),
                Text(f"{source.url}\n{_verification(source)}"),
            )
    return table


def check_report(name: str, check: ImageCheck) -> Iterator[RenderableType]:
    """Yield the problems of a set of images, errors first, and what to do about them."""
    images = sum(sum(classes.values()) for classes in check.counts.values())
    labels = {label for classes in check.counts.values() for label in classes}
    yield Text(
        f"{name}: {counted(images, 'image')}, {counted(len(check.counts), 'domain')},"
        f" {counted(len(labels), 'class')}",
        style="bold",
    )
    yield from _notes(check.notes)
    findings = check.findings()
    for finding in findings:
        line = Text("\n")
        line.append(finding.severity, STYLES[finding.severity])
        line.append(f"  {finding.what}")
        for location in finding.where:
            line.append(f"\n  {location}", "dim")
        line.append(f"\n  → {finding.advice}")
        yield line
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        yield Text(f"\ncheck failed: {counted(errors, 'error')}", style="bold red")
    else:
        yield Text("\ncheck passed" + (", with remarks" if findings else ""), style="bold green")


def _of(local: int | None, published: int) -> str:
    if local is not None and not published:  # the publishers state no number
        return f"{local:,}"
    return f"{published:,}" if local in (None, published) else f"{local:,} of {published:,}"


def _notes(notes: Sequence[str]) -> Iterator[Text]:
    return (Text(f"note: {note}") for note in notes)


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_CLASSES]) + (", …" if len(names) > MOST_CLASSES else "")


def _verification(source: Source) -> str:
    known = [f"sha256 {source.sha256}"] * bool(source.sha256)
    known += [f"md5 {source.md5}"] * bool(source.md5)
    known += [f"{source.size:,} bytes"] * bool(source.size)
    return ", ".join(known) or "no known checksum: verified by the number of images"
