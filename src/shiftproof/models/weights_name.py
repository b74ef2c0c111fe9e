"""Values of `weights`: a file, `pretrained` or `random`."""

from __future__ import annotations

from pathlib import Path

from shiftproof.core.errors import InvalidValue
from shiftproof.core.files import file_hash

# Values of `weights` other than the name of a file.
PRETRAINED = "pretrained"
RANDOM = "random"
# Prefix of the hash by which a run identifies the content of a file.
CONTENT = "sha256:"


def names_a_file(weights: str) -> bool:
    """Return whether `weights` names a file."""
    return weights not in (PRETRAINED, RANDOM)


def content_hash(path: str) -> str:
    """Return a hash of a file's content, which does not depend on its path."""
    return CONTENT + file_hash(existing(path))[:16]


def existing(path: str) -> Path:
    """Return the path of a weights file, or raise if it does not exist."""
    if path.startswith(CONTENT):
        raise InvalidValue(f"`weights` must name a file, not the hash of its content, {path}")
    file = Path(path).expanduser()
    if not file.is_file():
        raise InvalidValue(
            f"`weights` must be {PRETRAINED}, {RANDOM} or a file; there is no file {path!r}"
        )
    return file
