"""Write the runs of a file of records as the folder of a sweep, which then goes on from them.

    python tools/unpack_records.py results/table1.jsonl.gz reproduction/full/table1 --preset table1
    shiftproof reproduce table1 --runs 10 --rows Fishr

A run is known by the hash of its settings.  One that was made by settings of an older version is
refused by the sweep, which names it; `--algorithms` leaves it out.  A file of records has no
weights: models, combinations and retraining need runs of their own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from shiftproof.core.files import write_json
from shiftproof.core.migrations import current
from shiftproof.sweeps.stored_run import JOB_NAMES, VARIANT, row_of
from shiftproof.training.config import NO_NETWORK, RunConfig
from shiftproof.training.run_folder import Ended, RunFolder

# Runs with another status are run again.
ENDED = ("finished", "diverged")


def unpack(
    archive: Path,
    out: Path,
    preset: str,
    rows: set[str],
    draws: int | None,
    own_interval: bool = False,
) -> int:
    """Write the runs that ``out`` lacks, and its sweep.json; return the number of runs written."""
    with gzip.open(archive, "rt", encoding="utf-8") as lines:
        runs = [current(json.loads(line), "archive", archive) for line in lines]
    chosen = [
        run
        for run in runs
        if run["status"] in ENDED
        and (not rows or row_of(run) in rows)
        and (draws is None or run["hparams_seed"] < draws)
    ]
    if not chosen:
        known = sorted({row_of(run) for run in runs})
        raise SystemExit(f"{archive} has none of these runs; it has {', '.join(known)}")
    configs = [RunConfig.from_json(run["config"]) for run in chosen]
    # A learner that is fitted at once has one step, whatever the sweep's steps.
    stepped = [config for config in configs if config.backbone != NO_NETWORK] or configs
    settings = {
        json.dumps(settings_of(config, preset, own_interval), sort_keys=True) for config in stepped
    }
    if len(settings) > 1:
        raise SystemExit(f"{archive} has runs of several sweeps: {'; '.join(sorted(settings))}")
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "sweep.json").exists():
        write_json(out / "sweep.json", json.loads(settings.pop()))
    written = 0
    for run, config in zip(chosen, configs, strict=True):
        folder = out / "runs" / f"{run['dataset']}-{config.algorithm}-{config.run_id}"
        if not folder.exists():
            write_run(folder, run)
            written += 1
    return written


def settings_of(config: RunConfig, preset: str, own_interval: bool) -> dict[str, Any]:
    """Return the settings that all runs of a sweep share, as the sweep writes them."""
    return {
        "preset": preset,
        "steps": config.steps,
        "precision": config.precision,
        "evaluate": sorted(config.evaluate),
        **({"every_step": True} if config.eval_every > 0 else {}),
        **({"eval_every": config.eval_every} if own_interval else {}),
        **({"average": config.average} if config.average != "none" else {}),
    }


def write_run(folder: Path, run: dict[str, Any]) -> None:
    """Write the files of an ended run, with done.json last, as a run does."""
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {n: run[n] for n in (*JOB_NAMES, VARIANT) if n in run})
    write_json(folder / "config.json", run["config"])
    files, records = RunFolder(folder), run["records"]
    for record in records:
        files.records.append(record)
    step = records[-1]["step"] if records else 0
    run_id = RunConfig.from_json(run["config"]).run_id
    files.finish(Ended(run["status"], step, run["seconds"], run_id, run["environment"]))


def main() -> None:
    """Unpack the records given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("archive", type=Path, help="file of records (.jsonl.gz)")
    parser.add_argument("out", type=Path, help="folder of the sweep")
    parser.add_argument("--preset", required=True, help="preset of the sweep")
    parser.add_argument("--algorithms", default="", help="rows to take, by commas; default all")
    parser.add_argument("--draws", type=int, help="take the first draws only")
    parser.add_argument("--eval-every", action="store_true", help="the sweep had --eval-every")
    given = parser.parse_args()
    rows = {name for name in given.algorithms.split(",") if name}
    count = unpack(
        given.archive, given.out, given.preset, rows, given.draws, own_interval=given.eval_every
    )
    print(f"{given.out}: {count} runs written", file=sys.stderr)


if __name__ == "__main__":
    main()
