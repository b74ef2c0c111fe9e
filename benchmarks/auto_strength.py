"""`python -m benchmarks.auto_strength SIZE FOLDER SEED …`: `idm-auto` and ERM on Colored MNIST.

Each domain is held out in turn, with each seed.  Finished runs in the folder are not run again. The
table has the accuracy in percent on the held-out domain, on the held-out parts of the training
domains and, where the data has them, on gray images.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import shiftproof

DOMAINS, ALGORITHMS = ("10%", "80%", "90%"), ("erm", "idm-auto")
# At full size as in `results/auto.md`; `lite` has the settings of the preset.
SIZES: dict[str, dict[str, Any]] = {
    "full": {"data": "colored-mnist-irm", "steps": 1000, "hidden": 256, "batch_size": 512},
    "lite": {"data": "colored-mnist", "steps": 1001, "hidden": 128, "batch_size": 64},
}


def measured(size: str, folder: Path, algorithm: str, held_out: str, seed: int) -> list[float]:
    """Return the accuracies on the test domain, the training domains and gray, in percent."""
    hparams = dict(SIZES[size])
    data, steps = hparams.pop("data"), hparams.pop("steps")
    run = shiftproof.train(
        data, algorithm=algorithm, test_domains=[held_out], seed=seed, steps=steps,
        options={"side": "14"} if size == "lite" else {}, backbone="mlp", device="cpu", threads=1,
        hparams=hparams | ({"gradient_warmup": 300} if algorithm == "idm-auto" else {}),
        evaluate=["train-out", "test-in", "test-out"] + ["extra"] * (size == "full"),
        eval_every=0, out=folder / f"{size}-{algorithm}-{held_out.rstrip('%')}-{seed}",
    )  # fmt: skip
    if run.status != "finished":
        sys.exit(f"a run {run.status}; the same command resumes it")
    accuracy = run.records[-1]["accuracy"]
    test = 0.8 * accuracy[f"{held_out}/in"] + 0.2 * accuracy[f"{held_out}/out"]
    training = fmean(accuracy[f"{name}/out"] for name in DOMAINS if name != held_out)
    return [100 * value for value in (test, training, accuracy.get("gray", float("nan")))]


def main(size: str, folder: str, *seeds: str) -> None:
    """Run what is missing, and print the table."""
    columns = "| test | lowest | highest | training | test − training | gray |"
    print(f"| held out | algorithm {columns}\n|---|---|" + "---:|" * 6)
    for held_out in DOMAINS:
        for algorithm in ALGORITHMS:
            runs = [measured(size, Path(folder), algorithm, held_out, int(s)) for s in seeds]
            test, training, gray = zip(*runs, strict=True)
            error = stdev(test) / len(test) ** 0.5 if len(test) > 1 else float("nan")
            print(
                f"| {held_out} | {algorithm} | {fmean(test):.1f} ± {error:.1f} | {min(test):.1f} |"
                f" {max(test):.1f} | {fmean(training):.1f} | {fmean(test) - fmean(training):+.1f} |"
                f" {fmean(gray):.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
