"""Reading bytes and labels."""

from shiftproof.data.base import DATASETS, DatasetCard, DatasetSource, Domain, DomainDataset

__all__ = ["DATASETS", "DatasetCard", "DatasetSource", "Domain", "DomainDataset"]
