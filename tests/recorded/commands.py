"""The recorded commands: groups that run in order in one folder, so that they share models."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
SHARED = ROOT.parent / "shared"


@dataclass(frozen=True)
class Command:
    """One command and the files whose content is recorded (patterns below the work folder)."""

    line: str
    show: tuple[str, ...] = ()
    stop_at: int = 0  # interrupt before the n-th record of a run is written

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.line.format(results=RESULTS))


@dataclass(frozen=True)
class Group:
    """Commands of one file in `expected`; ``numbers`` says whether results are among it."""

    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    numbers: bool = True


def run(line: str, *show: str, stop_at: int = 0) -> Command:
    return Command(line, show, stop_at)


ILL = "patients.csv --label ill --domain hospital --drop patient,stage,days,weight"
STAGE = "patients.csv --label stage --domain hospital --drop patient,ill,days,weight"
DAYS = "patients.csv --label days --domain hospital --drop patient,ill,stage,weight"
SITES = "vectors.npz"
# Of a network: small, one thread, no line of progress that depends on the clock.
SMALL = "--threads 1 --device cpu --hparam batch_size=8 --holdout 0.25 --quiet"
MNIST = "colored-mnist-irm --data-option per_domain=40 --workers 1 --device cpu"
SWEEP = (
    f"sweep {MNIST} --algorithms erm,coral --n-hparams 2 --trials 1 --steps 4 --eval-every 2"
    " --test-domain 10% --test-domain 90% --quiet"
)

TABLE = Group(
    (
        run(f"train {ILL} -a linear --test-domain west --out linear", "linear/*.json*"),
        run(f"train {ILL} -a linear --test-domain west --out linear"),
        run(f"train {ILL} -a linear --test-domain each --out each --quiet", "each/*/records.jsonl"),
        run("expect each --metric auroc --at-least 0.7"),
        run("expect each --json"),
        run("report each"),
        run("predict linear unlabelled.csv --keep patient"),
        run("predict linear unlabelled.csv --sets 0.9 --expected each --out sets.csv", "sets.csv"),
        run("predict linear new.csv --domain hospital --adapt auto --out adapted.csv --quiet"),
        run("evaluate linear new.csv"),
        run("evaluate linear new.csv --expected each --json"),
        run("compare-sites linear unlabelled.csv"),
        run("recalibrate linear new.csv --out updated --json"),
        run(f"diagnose {ILL} --quiet"),
        run(f"diagnose {ILL} --details --out shifts.json --quiet", "shifts.json"),
    )
)

MISTAKES = Group(
    tuple(
        run(line)
        for line in (
            "train patients.cvs --label ill --domain hospital",
            "train patients.csv --label il --domain hospital",
            "train patients.csv --label ill --domain hospitl",
            "train patients.csv",
            "train patients.csv --label ill --domain hospital --algoritm erm",
            f"train {ILL} -a imd",
            f"train {ILL} -a linear --test-domain wst",
            f"train {ILL} -a linear --test-domain west --metric auroq",
            f"train {ILL} -a erm --hparam lr=-1",
            f"train {ILL} -a erm --hparam lrr=1",
            f"train {ILL} -a erm --steps -3",
            "train one-hospital.csv --label ill --domain hospital -a linear",
            "train one-class.csv --label ill --domain hospital -a linear",
            "train empty -a erm",
            "train nothing.csv --label ill --domain hospital",
            "predict broken-model unlabelled.csv",
            "predict nowhere unlabelled.csv",
            "sweep colored-mnst",
        )
    ),
    numbers=False,
)

GROUPS = {"table": TABLE, "mistakes": MISTAKES}
