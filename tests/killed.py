"""A program that ends work at random moments: `python tests/killed.py WORK FOLDER KILLS`.

The work is done by forked processes, so that starting it costs nothing.  It prints how many were
ended before they were done, and fails if a file was ever left half written.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


def run(work: Callable[[], object], seconds: float = 0.0) -> bool:
    """Do the work in a process of its own; return whether it came to its end.

    After ``seconds`` the system ends the process at once: as by kill −9, nothing of it runs any
    more.  The clock is the process's own, so that it does not matter when this one is scheduled.
    """
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)  # 0: never
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("the work failed")
    return os.WIFEXITED(status)


def timed(work: Callable[[], object]) -> float:
    """Do the work in a process of its own; return the seconds that it took."""
    start = time.monotonic()
    assert run(work)
    return time.monotonic() - start


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
    from _internals import ImageView, training_features as features
    from image_data import load_images

    features.SHARD = 1
    home = Path(os.environ["SHIFTPROOF_HOME"])

    def work(home: Path) -> None:
        torch.set_num_threads(1)
        os.environ["SHIFTPROOF_HOME"] = str(home)
        dataset = load_images(folder, ImageView(image_size=32))
        features.freeze(dataset, "test_resnet", "random", device="cpu", workers=1)

    seconds = timed(lambda: work(home / "straight"))
    expected = content(home / "straight" / "features")
    chance = random.Random(0)
    hit = tries = 0
    while hit < kills and (tries := tries + 1) < 5 * kills:
        hit += not run(lambda: work(home / "killed"), chance.uniform(0, seconds))
        found = content(home / "killed" / "features")
        assert found.items() <= expected.items(), "a file of features is not whole"
        if found == expected:  # nothing is left to interrupt
            shutil.rmtree(home / "killed")
    run(lambda: work(home / "killed"))
    assert content(home / "killed" / "features") == expected
    return hit


def kill_report(folder: Path, kills: int) -> int:
    """Kill the writing of a report at random moments: the file is the old or the new one."""
    from shiftproof import report

    out = folder.parent / "report.md"

    def work() -> None:
        report(folder).save(out)

    before = content(folder)
    seconds = timed(work)
    new, old = out.read_bytes(), b"an older report\n"
    chance = random.Random(0)
    hit = tries = 0
    while hit < kills and (tries := tries + 1) < 5 * kills:
        out.write_bytes(old)
        hit += not run(work, chance.uniform(0, seconds))
        assert out.read_bytes() in (old, new), "the report is half written"
        assert content(folder) == before, "the report changed a run"
    run(work)
    assert out.read_bytes() == new
    return hit


if __name__ == "__main__":
    name, folder, kills = sys.argv[1:]
    works = {"features": kill_features, "report": kill_report}
    print(json.dumps({"killed": works[name](Path(folder), int(kills))}))
