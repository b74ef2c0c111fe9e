"""What a dataset is: a card that describes it, and domains of samples with labels."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.errors import DataError, UnknownName
from shiftproof.registry import Registry
from shiftproof.space import Regime


@dataclass(frozen=True)
class DatasetCard:
    """What a reader, and a default, must know of a dataset before it is loaded.

    ``counts`` gives the samples of each domain, ``backbone`` the network its publication trains,
    ``eval_every`` the protocol's number of steps between evaluations.
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


@dataclass(frozen=True)
class Domain:
    """Samples that share one distribution, held in memory.

    ``x`` [n, …] is uint8 (read as numbers in [0, 1]) or floating point, ``y`` [n] int64.
    """

    name: str
    x: Tensor
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

    def inputs(self, index: Tensor) -> Tensor:
        """Return the samples at ``index`` as float32."""
        x = self.x[index]
        return x.float().div_(255) if x.dtype == torch.uint8 else x.float()

    def to(self, device: torch.device) -> Domain:
        """Return the domain with its tensors on ``device``."""
        return Domain(self.name, self.x.to(device), self.y.to(device))


@dataclass(frozen=True)
class DomainDataset:
    """Loaded data: the domains, and sets that are only ever evaluated (``extras``)."""

    name: str
    domains: tuple[Domain, ...]
    classes: tuple[str, ...]
    regime: Regime
    backbone: str
    eval_every: int
    extras: tuple[Domain, ...] = ()

    def __post_init__(self) -> None:
        names = [domain.name for domain in (*self.domains, *self.extras)]
        if len(set(names)) < len(names):
            raise DataError(f"{self.name} has two domains of one name among {', '.join(names)}")

    def to(self, device: torch.device) -> DomainDataset:
        """Return the dataset with its tensors on ``device``."""
        return replace(
            self,
            domains=tuple(domain.to(device) for domain in self.domains),
            extras=tuple(extra.to(device) for extra in self.extras),
        )

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
        digest = hashlib.sha256(repr((self.classes, self.domain_names)).encode())
        for domain in (*self.domains, *self.extras):
            digest.update(repr((domain.name, tuple(domain.x.shape), str(domain.x.dtype))).encode())
            digest.update(domain.x.cpu().contiguous().numpy().data)
            digest.update(domain.y.cpu().contiguous().numpy().data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class DatasetSource(ABC):
    """A registered dataset; its fields are its options (see :mod:`shiftproof.space`)."""

    card: ClassVar[DatasetCard]

    @abstractmethod
    def load(self, seed: int) -> DomainDataset:
        """Return the data; all chance in making it comes from ``seed``'s stream ``data``."""


DATASETS: Registry[type[DatasetSource]] = Registry("dataset", package="shiftproof.data")
