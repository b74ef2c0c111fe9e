"""A program that kills work −9 at random moments: `python tests/killed.py WORK FOLDER KILLS`.

The work is done by forked processes, so that starting it costs nothing.  It prints how many were
killed before they had ended, and fails if a file was ever left half written.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def begin(work: Callable[[], object]) -> int:
    """Start the work in a process of its own and return its number."""
    if child := os.fork():
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def finish(work: Callable[[], object]) -> float:
    """Do the work in a process of its own; return the seconds that it took."""
    start = time.monotonic()
    _, status = os.waitpid(begin(work), 0)
    if status:
        raise RuntimeError(f"the work failed with status {status}")
    return time.monotonic() - start


def kill(process: int) -> bool:
    """Kill −9; return whether that came before its end."""
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("the work failed")
    return os.WIFSIGNALED(status)


def content(folder: Path) -> dict[str, str]:
    """Return the hash of every file that is not a lock or an unfinished file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock" and path.suffix != ".new"
    }


def kill_features(folder: Path, kills: int) -> int:
    """Kill the computing of features after random files; the cache ends the same."""
    import torch

    from shiftproof.data.images.files import ImageView
    from shiftproof.data.images.folder import load_image_folder
    from shiftproof.training import features

    features.SHARD = 1
    home = Path(os.environ["SHIFTPROOF_HOME"])

    def work(home: Path) -> None:
        torch.set_num_threads(1)
        os.environ["SHIFTPROOF_HOME"] = str(home)
        dataset = load_image_folder(folder, ImageView(image_size=32))
        features.freeze(dataset, "test_resnet", "random", device="cpu", workers=1)

    def files() -> int:
        return len(list((home / "killed").rglob("*.safetensors")))

    seconds = finish(lambda: work(home / "straight"))
    expected = content(home / "straight" / "features")
    chance = random.Random(0)
    hit = 0
    for _ in range(kills):
        before = files()
        process = begin(lambda: work(home / "killed"))
        limit = time.monotonic() + 60
        # Every second one anywhere, the others where files are written.
        chosen = chance.choice((None, 1))
        pause = chance.uniform(0, seconds) if chosen is None else seconds / len(expected)
        while chosen and files() < before + chosen and time.monotonic() < limit:
            if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.001)
        time.sleep(pause * (1 if chosen is None else chance.random()))
        hit += kill(process)
        found = content(home / "killed" / "features")
        assert found.items() <= expected.items(), "a file of features is not whole"
    finish(lambda: work(home / "killed"))
    assert content(home / "killed" / "features") == expected
    return hit


def kill_report(folder: Path, kills: int) -> int:
    """Kill the writing of a report at random moments: the file is the old or the new one."""
    from shiftproof.api.report import report

    out = folder.parent / "report.md"

    def work() -> None:
        report(folder).save(out)

    before = content(folder)
    seconds = finish(work)
    new, old = out.read_bytes(), b"an older report\n"
    chance = random.Random(0)
    hit = 0
    for _ in range(kills):
        out.write_bytes(old)
        process = begin(work)
        time.sleep(chance.uniform(0, seconds))
        hit += kill(process)
        assert out.read_bytes() in (old, new), "the report is half written"
        assert content(folder) == before, "the report changed a run"
    finish(work)
    assert out.read_bytes() == new
    return hit


if __name__ == "__main__":
    name, folder, kills = sys.argv[1:]
    works = {"features": kill_features, "report": kill_report}
    print(json.dumps({"killed": works[name](Path(folder), int(kills))}))
