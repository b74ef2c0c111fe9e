"""Where data that outlives a command is kept: imported datasets, image indexes, features."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return Shiftproof's own folder, which need not exist yet.

    It is ``$SHIFTPROOF_HOME``, else the folder ``shiftproof`` in the user's cache.
    """
    chosen = os.environ.get("SHIFTPROOF_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().absolute() / "shiftproof"
