"""Damaged and crafted content, by a seed, and a guard that watches what reading it does."""

from __future__ import annotations

import copy
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator

# What a stranger may put in place of any value.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 10**400, 1e308, float("nan"), float("inf"), -0.5, "", "x" * 5000,
    "\ud800", "../../escaped", "/etc/passwd", "\x1b[31mred\x07", "<script>alert(1)</script>",
    r"\input{/etc/passwd}", "=HYPERLINK(1)", "a\nb\r\x00c", "NaN", [], {}, [[]], [None], [1, 2],
    ["a", "a"], {"a": 1}, {"__reduce__": ["os.system", ["true"]]}, [0] * 3000,
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) within JSON values."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs) if isinstance(value, dict | list) else ():
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def crafted_json(value: Any, rng: Rng) -> str:
    """Return JSON with a few values replaced, deleted, doubled or nested without end."""
    value = copy.deepcopy(value)
    for _ in range(int(rng.integers(1, 4))):
        spots = list(places(value))
        if not spots:
            break
        holder, key = spots[int(rng.integers(len(spots)))]
        kind = int(rng.integers(6))
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[str(VALUES[int(rng.integers(10, 21))])] = holder.pop(key)
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    text = json.dumps(value)
    if rng.random() < 0.05:
        text = text.replace(":", ":" + "[" * 50_000, 1)
    return text


def damaged(data: bytes, rng: Rng) -> bytes:
    """Return bytes with some changed, cut out, repeated or appended."""
    spoiled = bytearray(data)
    kind = int(rng.integers(5))
    at = int(rng.integers(len(spoiled) + 1))
    if kind == 0:
        return bytes(spoiled[:at])
    if kind == 1:
        spoiled[at:at] = rng.bytes(int(rng.integers(1, 40)))
    elif kind == 2:
        spoiled += spoiled[at : at + 500]
    else:
        # Most at the beginning, where sizes and names are.
        for _ in range(int(rng.integers(1, 6))):
            end = len(spoiled) if rng.random() < 0.5 else min(len(spoiled), 200)
            if end:
                spoiled[int(rng.integers(end))] = int(rng.integers(256))
    return bytes(spoiled)


def either(data: bytes, rng: Rng) -> bytes:
    """Craft a JSON document, or the lines of one, or damage the bytes."""
    if rng.random() < 0.3:
        return damaged(data, rng)
    try:
        return crafted_json(json.loads(data), rng).encode("utf-8", "surrogatepass")
    except ValueError:
        lines = data.splitlines()
        at = int(rng.integers(len(lines)))
        lines[at] = crafted_json(json.loads(lines[at]), rng).encode("utf-8", "surrogatepass")
        return b"\n".join(lines) + b"\n"


_EVENTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
           "pickle.find_class", "socket.connect")  # fmt: skip
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod")
_watch: list[Callable[[str, tuple[Any, ...]], None]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watch:
        _watch[-1](event, arguments)


sys.addaudithook(_hook)


@contextmanager
def guarded(*inside: Path, most_bytes: int = 2**30) -> Iterator[list[str]]:
    """Note programs that are run, files that are changed outside `inside`, and memory.

    Python announces each of these events to its audit hooks.
    """
    seen: list[str] = []
    allowed = [str(path.resolve()) for path in inside]

    def outside(path: Any) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        found = os.path.realpath(os.fsdecode(path))
        return not found.startswith((*allowed, "/dev/", "/proc/")) and "__pycache__" not in found

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            seen.append(f"{event} {arguments[:1]}")
        elif event in _CHANGES and outside(arguments[0]):
            seen.append(f"{event} {arguments[0]}")
        elif event == "open":
            path, mode, flags = arguments
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (
                isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            if writes and outside(path):
                seen.append(f"open {path}")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _watch.append(look)
    try:
        yield seen
    finally:
        _watch.pop()
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > most_bytes:
        seen.append(f"memory grew by {grown / 2**20:.0f} MiB")
