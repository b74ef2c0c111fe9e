"""Reading bytes and labels.

Names are imported when they are first used: columns of a table are checked before torch is there.
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
