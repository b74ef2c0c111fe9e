"""Reading bytes and labels."""

from shiftproof.data.base import DATASETS, DatasetCard, DatasetSource, DomainDataset
from shiftproof.data.domain import Domain

__all__ = ["DATASETS", "DatasetCard", "DatasetSource", "Domain", "DomainDataset"]
