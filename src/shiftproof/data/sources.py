"""Published files: their links, sizes and checksums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import urlencode

from shiftproof.core.errors import DataError
from shiftproof.core.files import file_hash


@dataclass(frozen=True)
class Source:
    """A file to download; an empty checksum or a size of 0 means unknown."""

    url: str
    filename: str
    sha256: str = ""
    md5: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[!-~]+", self.url):
            raise DataError(f"{self.url!r} is not a link that begins with http:// or https://")
        if self.filename in ("", ".", "..") or PurePath(self.filename).name != self.filename:
            raise DataError(f"{self.filename!r} is not a plain file name (source {self.url})")
        for digest, length in ((self.sha256, 64), (self.md5, 32)):
            if digest and not re.fullmatch(f"[0-9a-f]{{{length}}}", digest):
                raise DataError(f"{digest!r} is not {length} hexadecimal digits ({self.url})")

    @classmethod
    def google_drive(cls, file_id: str, filename: str, md5: str = "") -> Source:
        """Return a file on Google Drive, with a link that skips the virus scan page.

        >>> Source.google_drive("1a-b", "set.zip").url
        'https://drive.usercontent.google.com/download?id=1a-b&export=download&confirm=t'
        """
        query = urlencode({"id": file_id, "export": "download", "confirm": "t"})
        url = f"https://drive.usercontent.google.com/download?{query}"
        return cls(url, filename, md5=md5)

    def flaw(self, path: Path) -> str:
        """Return how the file at `path` differs from the published one, or an empty string."""
        size = path.stat().st_size
        if size == 0:
            return "the file is empty"
        if self.size and size != self.size:
            return f"the file has {size} bytes instead of {self.size}"
        for name, expected in (("sha256", self.sha256), ("md5", self.md5)):
            if expected:
                digest = file_hash(path, name)
                if digest != expected:
                    return f"its {name} is {digest} instead of {expected}"
        return ""
