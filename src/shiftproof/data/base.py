"""What a dataset is: a card that describes it, and domains of samples with labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.registry import Registry
from shiftproof.core.space import Regime
from shiftproof.data.sources import Source

# Images that take no more than this once decoded stay in memory; others are read when needed.
KEPT_IN_MEMORY = 2 * 1024**3

# Called with what is going on, how much of it is done, and how much there is.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class DatasetCard:
    """What a reader, and a default, must know of a dataset before it is loaded.

    ``counts`` gives the samples of each domain, ``backbone`` the network its publication trains,
    ``eval_every`` the protocol's number of steps between evaluations.  Where they were published,
    ``class_counts`` gives the samples of each domain by class, in the order of ``classes``.
    ``sources`` are the files to download: each of them is needed, and each may be had at several
    places.
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
        return DomainDataset(
            name,
            tuple(domains),
            self.classes,
            self.regime,
            self.backbone,
            self.eval_every,
            tuple(extras),
        )


class LazyInputs(ABC):
    """Inputs that are read when they are needed, such as image files.

    ``shape`` is that of the tensor they would fill, [n, …].  Reading is a function of the
    arguments, and several threads may read at once.
    """

    shape: tuple[int, ...]

    @abstractmethod
    def read(self, index: np.ndarray) -> Tensor:
        """Return the inputs at ``index`` as an evaluation sees them."""

    @abstractmethod
    def draw(self, index: np.ndarray, seeds: np.ndarray) -> Tensor:
        """Return them as training sees them; the chance in each comes from its seed (uint64)."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of the content, the same wherever it lies."""

    @abstractmethod
    def without_chance(self) -> LazyInputs:
        """Return inputs that training sees as an evaluation does."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """What they take in memory."""

    @abstractmethod
    def in_memory(self) -> LazyInputs:
        """Return the same inputs, read from their files once and for all."""

    def __len__(self) -> int:
        return self.shape[0]


@dataclass(frozen=True)
class Domain:
    """Samples that share one distribution.

    ``x`` [n, …] is a tensor, uint8 (read as numbers in [0, 1]) or floating point, or lazy;
    ``y`` [n] is int64.
    """

    name: str
    x: Tensor | LazyInputs
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(
                f"domain {self.name!r} has {len(self.x)} samples but {len(self.y)} labels"
            )
        if len(self.y) == 0:
            raise DataError(f"domain {self.name!r} is empty")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_lazy(self) -> bool:
        """Whether the inputs are read when they are needed."""
        return isinstance(self.x, LazyInputs)

    def stored(self, index: np.ndarray, seeds: np.ndarray | None = None) -> Tensor:
        """Return the inputs at ``index`` in the form they are kept in.

        With ``seeds``, one each, lazy inputs come as training sees them.
        """
        if isinstance(self.x, LazyInputs):
            return self.x.read(index) if seeds is None else self.x.draw(index, seeds)
        return self.x[torch.from_numpy(index).to(self.x.device)]

    def inputs(self, index: np.ndarray) -> Tensor:
        """Return the samples at ``index`` as float32."""
        return as_numbers(self.stored(index))

    def labels(self, index: np.ndarray) -> Tensor:
        """Return the labels at ``index``."""
        return self.y[torch.from_numpy(index).to(self.y.device)]

    def to(self, device: torch.device) -> Domain:
        """Return the domain with its tensors on ``device``; lazy inputs stay where they are."""
        x = self.x if isinstance(self.x, LazyInputs) else self.x.to(device)
        return Domain(self.name, x, self.y.to(device))

    @cached_property
    def inputs_digest(self) -> bytes:
        """A hash of the inputs."""
        if isinstance(self.x, LazyInputs):
            return self.x.digest()
        digest = hashlib.sha256(repr((tuple(self.x.shape), str(self.x.dtype))).encode())
        digest.update(_bytes(self.x))
        return digest.digest()

    def digest(self) -> bytes:
        """Return a hash of name, inputs and labels."""
        digest = hashlib.sha256(self.name.encode())
        digest.update(self.inputs_digest)
        digest.update(_bytes(self.y))
        return digest.digest()


class Preparation(ABC):
    """What inputs need before a network can take them, and what must be learnt from samples.

    It is fitted to the samples trained on alone, so that nothing of a held-out sample leaks.
    """

    @abstractmethod
    def fit(self, x: Tensor) -> FittedPreparation:
        """Learn from the samples ``x`` [n, …] that a run trains on."""

    @abstractmethod
    def digest(self) -> bytes:
        """Return a hash of everything that decides what `fit` returns for given samples."""


class FittedPreparation(ABC):
    """A preparation that has seen the training samples."""

    notes: tuple[str, ...] = ()

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """Return what the network takes: [n, …] float32."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return all that `apply` depends on, as JSON values."""


@dataclass(frozen=True)
class DomainDataset:
    """Loaded data: the domains, and sets that are only ever evaluated (``extras``).

    ``notes`` say, one sentence each, what a user may not expect of the data (images left out,
    classes that a domain lacks).  ``identity`` takes the place of the content's hash where the
    content was computed from other data, by whose identity it is known; ``frozen`` then says by
    which network.  ``columns`` says which columns of a table or manifest held the label, the domain
    and the image paths.
    """

    name: str
    domains: tuple[Domain, ...]
    classes: tuple[str, ...]
    regime: Regime
    backbone: str
    eval_every: int
    extras: tuple[Domain, ...] = ()
    preparation: Preparation | None = None
    notes: tuple[str, ...] = ()
    identity: str = ""
    frozen: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [domain.name for domain in (*self.domains, *self.extras)]
        if len(set(names)) < len(names):
            raise DataError(f"{self.name} has two domains of one name among {', '.join(names)}")

    def with_domains(self, change: Callable[[Domain], Domain]) -> DomainDataset:
        """Return the dataset with each of its domains and extras changed."""
        return replace(
            self,
            domains=tuple(map(change, self.domains)),
            extras=tuple(map(change, self.extras)),
        )

    def to(self, device: torch.device) -> DomainDataset:
        """Return the dataset with its tensors on ``device``."""
        return self.with_domains(lambda domain: domain.to(device))

    def in_memory(self, most_bytes: int = KEPT_IN_MEMORY) -> DomainDataset:
        """Return the dataset with lazy inputs read once and for all, if all together are few."""
        lazy = [d.x for d in (*self.domains, *self.extras) if isinstance(d.x, LazyInputs)]
        if not lazy or sum(x.nbytes for x in lazy) > most_bytes:
            return self
        read = {id(x): x.in_memory() for x in lazy}
        return self.with_domains(lambda domain: replace(domain, x=read.get(id(domain.x), domain.x)))

    def without_chance(self) -> DomainDataset:
        """Return the dataset with inputs that training sees as an evaluation does."""

        def fix(domain: Domain) -> Domain:
            x = domain.x
            return replace(domain, x=x.without_chance()) if isinstance(x, LazyInputs) else domain

        return self.with_domains(fix)

    def fitted(self, trained_on: Mapping[str, np.ndarray]) -> FittedPreparation | None:
        """Return the preparation fitted to some samples, or None where there is none.

        ``trained_on`` gives the positions of those samples by the name of their domain.
        """
        if self.preparation is None:
            return None
        chosen = [d.stored(trained_on[d.name]) for d in self.domains if d.name in trained_on]
        return self.preparation.fit(torch.cat(chosen))

    def prepared(self, trained_on: Mapping[str, np.ndarray]) -> DomainDataset:
        """Return the dataset ready for a network, its preparation `fitted`."""
        fitted = self.fitted(trained_on)
        if fitted is None:
            return self

        def apply(domain: Domain) -> Domain:
            return replace(domain, x=fitted.apply(domain.stored(np.arange(len(domain)))))

        ready = replace(self.with_domains(apply), preparation=None, identity=self.fingerprint)
        return replace(ready, notes=(*self.notes, *fitted.notes))

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.domains[0].x.shape[1:])

    @property
    def domain_names(self) -> tuple[str, ...]:
        """The names of the domains, in order; an extra is not one of them."""
        return tuple(domain.name for domain in self.domains)

    def index_of(self, domain: str) -> int:
        """Return a domain's position, or raise with the nearest names."""
        if domain not in self.domain_names:
            raise UnknownName(f"domain of {self.name}", domain, self.domain_names)
        return self.domain_names.index(domain)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every sample, label and name: the identity of the data, wherever it lies."""
        if self.identity:
            return self.identity
        digest = hashlib.sha256(repr((self.classes, self.domain_names)).encode())
        for domain in (*self.domains, *self.extras):
            digest.update(domain.digest())
        if self.preparation is not None:
            digest.update(self.preparation.digest())
        return digest.hexdigest()[:16]


def as_numbers(x: Tensor) -> Tensor:
    """Return stored inputs as float32; uint8 is read as numbers in [0, 1]."""
    return x.float().div_(255) if x.dtype == torch.uint8 else x.float()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.cpu().contiguous().numpy().data


@dataclass(frozen=True)
class DatasetSource(ABC):
    """A registered dataset; its fields are its options (see `core.space`)."""

    card: ClassVar[DatasetCard]

    @abstractmethod
    def load(self, seed: int, progress: Progress = silent) -> DomainDataset:
        """Return the data; all chance in making it comes from ``seed``'s stream ``data``."""


DATASETS: Registry[type[DatasetSource]] = Registry(
    "dataset", package="shiftproof.data.datasets", plugins="shiftproof.datasets"
)
