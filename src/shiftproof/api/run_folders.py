"""The folders of runs, and their names."""

from __future__ import annotations

import os
import re
from pathlib import Path

from shiftproof.core.errors import InvalidValue
from shiftproof.core.standardize import NONE
from shiftproof.training.config import RunConfig

# In the folder of a study: what its page tells of the data, and the runs that hold out each domain.
STUDY, HELD_OUT = "study.json", "held-out"
# Maximum bytes of a name within the name of a folder, which is limited to 255.
LONGEST_NAME = 200


def folder_of(out: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder to write to, or None for the default."""
    if out is None:
        return None
    if Path(out) == Path():
        raise InvalidValue("`out` must name a folder")
    return Path(out).expanduser()


def as_folder(name: str) -> str:
    """Return a name with the characters that are unsuitable for a folder replaced.

    >>> as_folder("west & east/2"), as_folder("10%"), as_folder("..")
    ('west_east_2', '10%', '__')
    """
    plain = re.sub(r"[^\w.%-]+", "_", name)
    if not plain.strip("."):  # "." and ".." refer to other folders
        plain = "_" * len(plain)
    return plain.encode()[:LONGEST_NAME].decode(errors="ignore")


def run_name(config: RunConfig) -> str:
    """Return the default name of the folder of a run."""
    held_out = as_folder("+".join(config.test_domains))
    without = f"-without-{held_out}" if held_out else ""
    within = "" if config.standardize == NONE else f"-{config.standardize}"
    return f"{config.dataset}-{config.algorithm}{within}{without}-{config.run_id[:8]}"
