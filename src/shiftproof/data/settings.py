"""The settings that say which data to load and how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shiftproof.core.errors import InvalidValue, nearest
from shiftproof.core.settings import (
    Names,
    Settings,
    checked,
    names,
    one_of,
    pairs,
    setting,
    text,
    whole,
)
from shiftproof.core.types import CLASSIFICATION, REGRESSION

# How dates become domains, and the word for unchanged values.
PERIODS = ("year", "quarter", "month")
VALUE = "value"


def _by(value: Any) -> str:
    how = str(value)
    if how not in (*PERIODS, VALUE) and not how.isdigit():
        known = nearest(how, (*PERIODS, VALUE))
        raise InvalidValue(f"`by` {how!r} is unknown; {known} or give a number of bins")
    return how


def _label(value: Any) -> str:
    # A list of one is its label; several are refused when the table is read.
    return ",".join(value) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True, kw_only=True)
class LabelColumn(Settings):
    """The label column."""

    label: str | None = setting(
        None,
        checked(_label),
        "Label column (tables); default label. Several, joined by commas: the commands diagnose,"
        " expect, train and study handle each of them in turn.",
        panel="Data",
        metavar="COLUMN",
    )


@dataclass(frozen=True, kw_only=True)
class SiteSettings(Settings):
    """Where new samples are from."""

    domain: str | None = setting(
        None,
        text,
        "Domain column (tables); default domain. Several joined by commas: hospital,year.",
        panel="Data",
        metavar="COLUMN",
    )
    image: str | None = setting(
        None,
        text,
        "Column of image paths; makes the table a manifest.",
        panel="Data",
        metavar="COLUMN",
    )
    options: Mapping[str, Any] | None = setting(
        None,
        pairs,
        "Option of the dataset, the images or the table; repeatable.",
        panel="Data",
        option="data-option",
        repeats=True,
    )


@dataclass(frozen=True, kw_only=True)
class LabelSettings(SiteSettings, LabelColumn):
    """The columns of labelled samples."""


@dataclass(frozen=True, kw_only=True)
class DataSettings(LabelSettings):
    """How to read domains, labels and inputs."""

    task: str = setting(
        "auto",
        one_of(("auto", CLASSIFICATION, REGRESSION)),
        "[bold]classification[/] (labels are classes), [bold]regression[/] (labels are numbers) or"
        " [bold]auto[/] (decided by the label column: text and few distinct whole numbers are"
        " classes).",
        panel="Data",
    )
    by: str | int | None = setting(
        None,
        checked(_by, "HOW"),
        "How to form domains from the domain column: year, quarter or month (dates), a number of"
        " bins (numbers), or value (one domain per value).",
        panel="Data",
    )
    pool_below: int = setting(
        0,
        whole(0),
        "Pool domains with fewer rows than this into one.",
        panel="Data",
        metavar="ROWS",
    )
    drop: Names = setting(
        (),
        names,
        "Column not to use (tables); several joined by commas, or repeated.",
        panel="Data",
        metavar="COLUMN",
        repeats=True,
    )
    categorical: Names = setting(
        (),
        names,
        "Column whose numbers are codes of categories; several joined by commas, or repeated.",
        panel="Data",
        metavar="COLUMN",
        repeats=True,
    )
    weights_column: str | None = setting(
        None,
        text,
        "Column of sample weights for training (tables), at least 0: weight 2 equals repeating the"
        " row. Not used as a feature; scores are unweighted.",
        panel="Data",
        metavar="COLUMN",
    )
    image_size: int | None = setting(
        None, whole(), "Height and width of images; default 224.", panel="Data"
    )

    def all_options(self) -> dict[str, Any]:
        """Return the options of the data, with the image size."""
        if self.image_size is None:
            return dict(self.options or {})
        if "image_size" in (self.options or {}):
            raise InvalidValue("`image_size` and `options` give image_size twice")
        return {**(self.options or {}), "image_size": self.image_size}
