"""Read the lines of a gzipped file with bounded memory.

A few bytes can unpack to many gigabytes (a gzip bomb), so the unpacked bytes are counted.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from shiftproof.core.errors import DataError

# DEFLATE compresses repeated bytes up to 1032-fold.  Tables and records, which hold different
# numbers, rarely compress 20-fold.
MOST_TIMES = 100
# A small file may always unpack to this many bytes.
ALWAYS_ALLOWED = 64 * 2**20
LONGEST_LINE = 64 * 2**20


def gzip_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a gzipped file; raise as soon as it looks like a gzip bomb."""
    limit = max(ALWAYS_ALLOWED, MOST_TIMES * path.stat().st_size)
    total = 0
    with gzip.open(path) as file:
        while line := file.readline(LONGEST_LINE + 1):
            total += len(line)
            if total > limit or len(line) > LONGEST_LINE:
                raise DataError(
                    f"{path} unpacks to more than {total / 2**20:,.0f} MiB,"
                    f" {total / max(path.stat().st_size, 1):,.0f} times its size: it may be a gzip"
                    " bomb; if you trust it, unpack it yourself and give the unpacked file"
                )
            yield line
