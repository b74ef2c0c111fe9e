"""Datasets: domains of labelled samples, cards of published ones, and their files."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.registry import Registry
from shiftproof.core.space import Regime
from shiftproof.core.types import CLASSIFICATION, REGRESSION, Kind
from shiftproof.data.domain import Domain, LazyInputs

if TYPE_CHECKING:
    import torch

    from shiftproof.data.tables.preprocessing import Columns, FittedColumns


@dataclass(frozen=True)
class Source:
    """A file to download; an empty checksum or a size of 0 means unknown."""

    url: str
    filename: str
    sha256: str = ""
    md5: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[!-~]+", self.url):
            raise DataError(f"{self.url!r} is not a link that begins with http:// or https://")
        if self.filename in ("", ".", "..") or PurePath(self.filename).name != self.filename:
            raise DataError(f"{self.filename!r} is not a plain file name (source {self.url})")
        for digest, length in ((self.sha256, 64), (self.md5, 32)):
            if digest and not re.fullmatch(f"[0-9a-f]{{{length}}}", digest):
                raise DataError(f"{digest!r} is not {length} hexadecimal digits ({self.url})")

    @classmethod
    def google_drive(cls, file_id: str, filename: str, md5: str = "") -> Source:
        """Return a file on Google Drive, with a link that skips the virus scan page.

        >>> Source.google_drive("1a-b", "set.zip").url
        'https://drive.usercontent.google.com/download?id=1a-b&export=download&confirm=t'
        """
        host = "https://drive.usercontent.google.com"
        return cls(f"{host}/download?id={file_id}&export=download&confirm=t", filename, md5=md5)

    @property
    def known_hash(self) -> str | None:
        """The checksum with its algorithm, as pooch takes it, or None."""
        if self.sha256:
            return f"sha256:{self.sha256}"
        return f"md5:{self.md5}" if self.md5 else None


# Decoded images of at most this many bytes are kept in memory; others are read when needed.
KEPT_IN_MEMORY = 2 * 1024**3

# Called with the name of the task, the amount done and the total amount.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class DatasetCard:
    """The description of a published dataset, known before it is loaded.

    `counts` gives the number of samples in each domain (0 if not published), `backbone` the network
    used in the publication, and `eval_every` the protocol's number of steps between evaluations.
    `class_counts`, where published, gives the number of samples per domain and class, in the order
    of `classes`.  `sources` are the files to download: all are needed, and each is a tuple of
    alternative links.
    """

    summary: str
    counts: Mapping[str, int]
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    regime: Regime
    backbone: str
    eval_every: int
    publication: str
    licence: str
    class_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    sources: tuple[tuple[Source, ...], ...] = ()

    def dataset(
        self, name: str, domains: Sequence[Domain], extras: Sequence[Domain] = ()
    ) -> DomainDataset:
        """Return loaded domains as the dataset that this card describes."""
        protocol = (self.classes, self.regime, self.backbone, self.eval_every)
        return DomainDataset(name, tuple(domains), *protocol, tuple(extras))


@dataclass(frozen=True)
class DomainDataset:
    """A loaded dataset: its domains, and sets used only for evaluation (`extras`).

    `notes` are sentences about anything unexpected in the data (images left out, classes missing
    from a domain).  `identity` replaces the content hash if the data was computed from other data;
    `frozen` describes the network that computed it, if any.  `columns` names the columns of a table
    or manifest that hold the label, the domain and the image paths.  `standardize` says how rows
    are standardised within domains (`data.within_domain`).

    Labels are indices into `classes` or, for regression, numbers: `targets` then holds their name,
    and `classes` is empty.
    """

    name: str
    domains: tuple[Domain, ...]
    classes: tuple[str, ...]
    regime: Regime
    backbone: str
    eval_every: int
    extras: tuple[Domain, ...] = ()
    preparation: Columns | None = None
    notes: tuple[str, ...] = ()
    identity: str = ""
    frozen: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    standardize: str = "none"
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.classes) == bool(self.targets):
            raise DataError(
                f"{self.name} must have either `classes` or `targets`, not"
                f" {'both' if self.targets else 'neither'}"
            )
        for domain in (*self.domains, *self.extras):
            domain.require(self.kind)
            if len(self.targets) > 1 or len(domain.given.y.shape) > 1:
                raise DataError(
                    f"{self.name} has more than one label a sample; make one dataset for each label"
                )
        names = [domain.name for domain in (*self.domains, *self.extras)]
        if len(set(names)) < len(names):
            raise DataError(f"{self.name} has two domains of the same name: {', '.join(names)}")

    def with_domains(self, change: Callable[[Domain], Domain]) -> DomainDataset:
        """Return the dataset with `change` applied to every domain and extra set."""
        return replace(
            self, domains=tuple(map(change, self.domains)), extras=tuple(map(change, self.extras))
        )

    def to(self, device: torch.device) -> DomainDataset:
        """Return the dataset with its tensors on `device`."""
        return self.with_domains(lambda domain: domain.to(device))

    def in_memory(self, most_bytes: int = KEPT_IN_MEMORY) -> DomainDataset:
        """Return the dataset with its lazy inputs read into memory, if they fit."""
        lazy = [domain.given.x for domain in (*self.domains, *self.extras) if domain.is_lazy]
        if not lazy or sum(x.nbytes for x in lazy) > most_bytes:
            return self
        read = {id(x): x.in_memory() for x in lazy if isinstance(x, LazyInputs)}
        return self._with_lazy(lambda x: read[id(x)])

    def without_augmentation(self) -> DomainDataset:
        """Return the dataset without augmentation in training."""
        return self._with_lazy(lambda x: x.without_augmentation())

    def _with_lazy(self, change: Callable[[LazyInputs], LazyInputs]) -> DomainDataset:
        """Return the dataset with `change` applied to its lazy inputs."""

        def changed(domain: Domain) -> Domain:
            x = domain.given.x
            return domain.having(x=change(x)) if isinstance(x, LazyInputs) else domain

        return self.with_domains(changed)

    def fit_preparation(self, trained_on: Mapping[str, np.ndarray]) -> FittedColumns | None:
        """Fit the preparation to the training samples; return None if the inputs need none.

        `trained_on` maps the name of each training domain to the positions of its samples.
        """
        if self.preparation is None:
            return None
        chosen = [d.rows(trained_on[d.name]) for d in self.domains if d.name in trained_on]
        return self.preparation.fit(np.concatenate(chosen))

    def prepared(self, fitted: FittedColumns | None) -> DomainDataset:
        """Return the dataset with `fitted` applied to all inputs."""
        if fitted is None:
            return self
        ready = self.with_domains(lambda domain: domain.having(x=fitted.apply(domain.rows())))
        notes = (*self.notes, *fitted.notes)
        return replace(ready, preparation=None, identity=self.fingerprint, notes=notes)

    @property
    def kind(self) -> Kind:
        """Whether labels are classes or numbers."""
        return REGRESSION if self.targets else CLASSIFICATION

    @property
    def target(self) -> str:
        """The name of the number to predict; empty for classification."""
        return self.targets[0] if self.targets else ""

    @property
    def weighted(self) -> bool:
        """Whether samples have weights."""
        return any(domain.given.weight is not None for domain in self.domains)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.domains[0].shape[1:]

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The names of the domains, in order, without the extra sets."""
        return tuple(domain.name for domain in self.domains)

    def index_of(self, domain: str) -> int:
        """Return the position of a domain, or raise an error that suggests similar names."""
        if domain not in self.domain_names:
            raise UnknownName(f"domain of {self.name}", domain, self.domain_names)
        return self.domain_names.index(domain)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all samples, labels and names; independent of where they are stored."""
        if self.identity:
            return self.identity
        digest = hashlib.sha256(repr((self.classes, self.domain_names)).encode())
        for domain in (*self.domains, *self.extras):
            digest.update(domain.digest())
        if self.preparation is not None:
            digest.update(self.preparation.digest())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class DatasetSource(ABC):
    """A registered dataset; its fields are its options (see `core.space`).

    `needs` names the datasets that must be imported before it can be loaded.
    """

    card: ClassVar[DatasetCard]
    needs: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Load the dataset; all randomness comes from the stream `data` of `seed`."""


DATASETS: Registry[type[DatasetSource]] = Registry(
    "dataset", package="shiftproof.data.datasets", plugins="shiftproof.datasets"
)


def cache_dir() -> Path:
    """Return Shiftproof's cache folder, which may not exist yet.

    It is `$SHIFTPROOF_HOME` or, by default, `shiftproof` in the user's cache folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("SHIFTPROOF_HOME") or os.path.join(cache, "shiftproof")
    return Path(home).expanduser().absolute()
