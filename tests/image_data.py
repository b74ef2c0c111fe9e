"""Loading image folders and manifests with a given view, as tests need them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from _internals import DataRequest, ImageView

from shiftproof import DomainDataset


def load_images(path: Path, view: ImageView, **columns: Any) -> DomainDataset:
    """Load a folder of images, or with columns a manifest."""
    return DataRequest(str(path), options=asdict(view), **columns).load(0)
