"""Datasets: reading inputs, labels and domains.

Names are imported on first use, so that the columns of a table can be checked without torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftproof import LazyPackage

if TYPE_CHECKING:
    from shiftproof.data.base import (
        DATASETS as DATASETS,
        DatasetCard as DatasetCard,
        DatasetSource as DatasetSource,
        DomainDataset as DomainDataset,
    )
    from shiftproof.data.domain import Domain as Domain

_HOMES = dict.fromkeys(
    ("DATASETS", "DatasetCard", "DatasetSource", "DomainDataset"), "shiftproof.data.base"
) | {"Domain": "shiftproof.data.domain"}
__all__ = sorted(_HOMES)

sys.modules[__name__].__class__ = LazyPackage
