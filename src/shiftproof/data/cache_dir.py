"""The cache folder, which keeps downloaded datasets, image indexes and features."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return Shiftproof's cache folder, which may not exist yet.

    It is `$SHIFTPROOF_HOME` or, by default, `shiftproof` in the user's cache folder.
    """
    chosen = os.environ.get("SHIFTPROOF_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "shiftproof"
