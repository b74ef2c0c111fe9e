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
    stop_at: int = 0  # end it before the n-th record of a run is written
    same_as: str = ""  # two folders: which of their files are equal?

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.line.format(results=RESULTS))


@dataclass(frozen=True)
class Group:
    """Commands of one file in `expected`, and how close numbers are to those recorded."""

    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()  # modules
    relative: float = 1e-6
    messages_only: bool = False


def run(line: str, *show: str, stop_at: int = 0, same_as: str = "") -> Command:
    return Command(line, show, stop_at, same_as)


ILL = "patients.csv --label ill --domain hospital --drop patient,stage,days,weight"
STAGE = "patients.csv --label stage --domain hospital --drop patient,ill,days,weight"
DAYS = "patients.csv --label days --domain hospital --drop patient,ill,stage,weight"
# Of networks: float32, small, one thread, and no line of progress, which depends on the clock.
NETWORK = 1e-5
SMALL = "--threads 1 --device cpu --hparam batch_size=8 --quiet"
STEPS = f"--steps 8 --eval-every 4 {SMALL}"
PETS = "--backbone mlp --image-size 8 --test-domain attic"
RESNET = "--backbone test_resnet --weights random --image-size 32 --device cpu --workers 1"

GROUPS: dict[str, Group] = {}

GROUPS["table"] = Group(
    (
        run(f"train {ILL} -a linear --test-domain west --out linear", "linear/*.json*"),
        run(f"train {ILL} -a linear --test-domain west --out linear"),
        run(f"train {ILL} -a linear --test-domain each --out each --quiet", "each/*/records.jsonl"),
        run("expect each --metric auroc --at-least 0.7"),
        run("expect each --json"),
        run("report each"),
        run("predict linear unlabelled.csv --keep patient"),
        run("predict linear unlabelled.csv --sets 0.9 --expected each --out sets.csv", "sets.csv"),
        run(
            "predict linear new.csv --domain hospital --adapt auto --out adapted.csv --quiet",
            "adapted.csv",
        ),
        run("evaluate linear new.csv"),
        run("evaluate linear new.csv --expected each --json"),
        run("compare-sites linear unlabelled.csv"),
        run("recalibrate linear new.csv --out updated --json"),
        run("predict updated unlabelled.csv --quiet"),
        run("export linear --to safetensors"),
        run(f"diagnose {ILL} --details --out shifts.json --quiet", "shifts.json"),
    )
)

GROUPS["study"] = Group(
    (
        run(f"study {ILL} -a linear --out study --no-open --quiet", "study/report.html"),
        run("report study --metric f1"),
        run("predict study/model unlabelled.csv --sets 0.8"),
        run("evaluate study/model new.csv"),
        run("compare-sites study/model unlabelled.csv --json"),
        run("expect study/held-out --metric log_loss"),
    )
)

LEARNERS = "--test-domain west --quiet"
GROUPS["learners"] = Group(
    (
        run(f"train {STAGE} -a boosting --hparam trees=5 --test-domain each --out stage --quiet"),
        run("expect stage --metric auroc"),
        run("predict stage/west unlabelled.csv --sets 0.8 --expected stage"),
        run("evaluate stage/west patients.csv --metric auroc --expected stage"),
        run("recalibrate stage/west new.csv"),
        run(
            f"train {ILL} -a forest --hparam trees=5 {LEARNERS} --out forest",
            "forest/records.jsonl",
        ),
        run("predict forest unlabelled.csv"),
        run(f"train {ILL} {LEARNERS} --metric auroc --out best", "best/records.jsonl"),
        run("predict best unlabelled.csv"),
        run(
            "train patients.csv --label ill --domain hospital --drop patient,stage,days"
            f" --weights-column weight --class-weight balanced -a linear {LEARNERS} --out weighted",
            "weighted/records.jsonl",
        ),
        run(f"train {ILL} -a linear --standardize domain {LEARNERS} --out standardized"),
        run("predict standardized unlabelled.csv"),
        run(
            "train patients.csv --label ill --domain age --by 3 --drop patient,stage,days,weight"
            " -a linear --test-domain each --quiet --out ages"
        ),
        run(
            "train patients.csv --label ill --domain hospital,ward --pool-below 12"
            " --drop patient,stage,days,weight -a linear --quiet --out pooled",
            "pooled/config.json",
        ),
    )
)

GROUPS["numbers"] = Group(
    (
        run(f"train {DAYS} -a linear --test-domain each --out days --quiet", "days/west/*.jsonl"),
        run("expect days --at-least 2"),
        run("expect days --metric r2 --json"),
        run("predict days/west unlabelled.csv --interval 0.8"),
        run("evaluate days/west new.csv --expected days"),
        run("compare-sites days/west unlabelled.csv"),
        run("report days"),
        run(f"train {DAYS} -a boosting --hparam trees=5 --loss absolute {LEARNERS} --out trees"),
        run("predict trees unlabelled.csv --interval 0.9"),
        run(f"diagnose {DAYS} --quiet"),
        run(f"study {DAYS} -a linear --out study --no-open --quiet", "study/report.html"),
    )
)

GROUPS["networks"] = Group(
    (
        run(
            f"train {ILL} -a erm {STEPS} --test-domain west --average ema --out erm",
            "erm/config.json",
            "erm/records.jsonl",
        ),
        run("predict erm unlabelled.csv --device cpu"),
        run("evaluate erm new.csv --device cpu --json"),
        run(f"diagnose {ILL} --run erm --device cpu --quiet"),
        run(
            f"train {ILL} -a idm --hparam gradient_warmup=2 --hparam representation_warmup=2"
            f" {STEPS} --test-domain west --evaluate train-out,test-in,invariance",
            "runs/*/records.jsonl",
        ),
        run(
            f"train {STAGE} -a coral {STEPS} --test-domain each --out stage",
            "stage/west/records.jsonl",
        ),
        run("predict stage/west unlabelled.csv --device cpu"),
        run(f"train {STAGE} -a groupdro {STEPS} --average swad --out groupdro --json"),
        run(f"train {DAYS} -a erm --loss huber:2 {STEPS} --out days", "days/records.jsonl"),
        run("predict days unlabelled.csv --device cpu"),
    ),
    relative=NETWORK,
)

GROUPS["vectors"] = Group(
    (
        run("diagnose vectors.npz --quiet"),
        run("train vectors.npz -a linear --test-domain each --out linear --quiet"),
        run("predict linear/p few.npy --quiet"),
        run("evaluate linear/p vectors.npz --json"),
        run(f"train vectors.npz -a idm-auto {STEPS} --out auto", "auto/records.jsonl"),
    ),
    relative=NETWORK,
)

GROUPS["images"] = Group(
    (
        run("data check pets"),
        run("data check flawed --json"),
        run(f"train flawed -a erm {PETS} {STEPS} --workers 1 --out flawed-run"),
        run(
            "train manifest.csv --image file --label animal --domain place -a mmd"
            f" {PETS} {STEPS} --workers 1 --out manifest-run",
            "manifest-run/records.jsonl",
        ),
        run("predict manifest-run pets/attic --device cpu --workers 1"),
        run("evaluate manifest-run pets --device cpu --workers 1"),
        run(f"train pets --freeze {RESNET} -a linear --test-domain each --out frozen --quiet"),
        run("evaluate frozen/attic pets --device cpu --workers 1"),
        run(f"features pets {RESNET} --out features.parquet"),
        run("train features.parquet -a linear --test-domain attic --out features --quiet"),
        run("diagnose pets --raw --quiet"),
    ),
    relative=NETWORK,
)

ON_DIGITS = "colored-mnist-irm --data-option per_domain=40 --workers 1 --device cpu"
SWEEP = (
    f"sweep {ON_DIGITS} --algorithms erm,coral --n-hparams 2 --trials 1 --steps 4 --eval-every 2"
    " --test-domain 10% --test-domain 90% --quiet"
)
GROUPS["sweep"] = Group(
    (
        run(f"{SWEEP} --dry-run --out sweep"),
        run(f"{SWEEP} --models models --out sweep", "models/models.json"),
        run("sweep --status sweep"),
        run("report sweep"),
        run("report sweep --selection oracle --format markdown"),
        run("report sweep --selection oracle --format latex"),
        run("report sweep --format csv"),
        run("report sweep --format chosen"),
        run("report sweep --format html --out page.html", "page.html"),
        run("report sweep --format records --out records.jsonl"),
        run("report records.jsonl --selection training-domain"),
        run("report sweep --format domainbed --out logs"),
        run("report logs --selection training-domain --as-domainbed"),
        run(
            f"sweep {ON_DIGITS} --preset table1 --algorithms two-stage --hparam penalty=iga"
            " --n-hparams 1 --trials 1 --steps 3 --test-domain 10% --selection best-minimum"
            " --out search --quiet"
        ),
        run("report old-sweep --selection oracle"),
    ),
    relative=NETWORK,
)

STRAIGHT = f"train {ILL} -a idm-auto --steps 12 --eval-every 2 --checkpoint-seconds 0 {SMALL}"
GROUPS["resumed"] = Group(
    (
        run(f"{STRAIGHT} --out straight", "straight/records.jsonl"),
        run(f"{STRAIGHT} --out stopped", stop_at=4),
        run(f"{STRAIGHT} --out stopped", same_as="straight stopped"),
        run(f"{SWEEP} --out whole"),
        run(f"{SWEEP} --out cut", stop_at=5),
        run("sweep --status cut"),
        run(f"{SWEEP} --out cut", same_as="whole cut"),
    ),
    relative=NETWORK,
)

GROUPS["results"] = Group(
    (
        run("report {results}/table1.jsonl.gz"),
        run("report {results}/lite.jsonl.gz --selection oracle"),
        run("report {results}/lite-trials.jsonl.gz --selection training-domain"),
        run("report {results}/domainbed-mnist.jsonl.gz"),
        run("report {results}/invariance.jsonl.gz"),
        run("reproduce table1 --records {results}/table1.jsonl.gz"),
        run("reproduce ablation-pdm --scale lite --records {results}/ablations-lite.jsonl.gz"),
    )
)

GROUPS["shared"] = Group(
    (run("report golden-sweep"), run("report golden-sweep --format csv --selection oracle"))
)

GROUPS["lists"] = Group(
    (
        run("--version"),
        run("algorithms"),
        run("algorithms idm"),
        run("algorithms best"),
        run("data list"),
        run("data import pacs PACS"),
        run("data show pacs"),
        run("data check pacs"),
        run("data show colored-mnist-irm"),
        run("demo --out demo"),
    ),
    relative=NETWORK,
)

GROUPS["onnx"] = Group(
    (
        run(f"train {ILL} -a linear --out linear --quiet"),
        run("export linear --to onnx", "linear/exported.json"),
        run(f"train {ILL} -a erm {STEPS} --out erm"),
        run("export erm --to onnx --out erm.onnx", "erm.json"),
    ),
    needs=("onnx", "onnxscript", "skl2onnx"),
    relative=NETWORK,
)

TABLE = "patients.csv --label ill --domain hospital"
GROUPS["mistakes"] = Group(
    tuple(
        run(line)
        for line in (
            "trian patients.csv",
            "train",
            "train patients.cvs --label ill --domain hospital",
            "train patients.csv",
            "train patients.csv --label il --domain hospital",
            "train patients.csv --label ill --domain hospitl",
            "train patients.csv --label hospital --domain hospital",
            f"train {TABLE} --drop patiant",
            f"train {TABLE} --algoritm erm",
            f"train {ILL} -a imd",
            f"train {ILL} -a linear --test-domain wst",
            f"train {ILL} -a linear --test-domain west --metric auroq",
            f"train {ILL} -a erm --hparam lr=-1",
            f"train {ILL} -a erm --hparam lrr=1",
            f"train {ILL} -a erm --hparam lr",
            f"train {ILL} -a erm --steps -3",
            f"train {ILL} -a erm --holdout 1.5",
            f"train {ILL} -a erm --seed x",
            f"train {ILL} -a linear --task regression",
            f"train {ILL} -a linear --out full",
            "train one-hospital.csv --label ill --domain hospital -a linear",
            "train one-class.csv --label ill --domain hospital -a linear",
            "train label-is-hospital.csv --label ill --domain hospital -a linear --quiet --out own",
            "train gaps.csv --label ill --domain hospital -a linear",
            "train infinite.csv --label ill --domain hospital -a linear",
            "train no-rows.csv --label ill --domain hospital",
            "train nothing.csv --label ill --domain hospital",
            "train ragged.csv --label ill --domain hospital",
            "train nan.npz -a linear",
            "train text.txt",
            "train empty -a erm",
            "study one-hospital.csv --label ill --domain hospital --no-open",
            "diagnose patients.csv --label ill --domain hospital --domains north,nroth",
            "expect empty",
            "expect patients.csv --label ill --domain hospital --metric acuracy",
            "predict broken-model unlabelled.csv",
            "predict nowhere unlabelled.csv",
            f"train {ILL} -a linear --quiet --out linear --test-domain west",
            f"train {ILL} -a linear --quiet --out linear --test-domain east",
            "predict linear manifest.csv",
            "predict linear unlabelled.csv --sets 1.5 --expected linear",
            "predict linear unlabelled.csv --interval 0.9",
            "predict linear unlabelled.csv --out missing/p.csv",
            "evaluate linear unlabelled.csv",
            "recalibrate linear unlabelled.csv",
            "export linear --to onx",
            "compare-sites linear nothing.csv",
            "features patients.csv --out f.csv",
            "sweep colored-mnst",
            "sweep colored-mnist --algorithms erm,idn",
            "sweep --status empty",
            "report empty",
            "report old-sweep --format htm",
            "report old-sweep --selection orakle",
            "reproduce table3",
            "algorithms imd",
            "data show packs",
            "data import pacs text.txt",
            "data check nowhere",
        )
    ),
    messages_only=True,
)

HELP = (
    "", "train", "study", "expect", "diagnose", "predict", "compare-sites", "recalibrate",
    "evaluate", "export", "features", "sweep", "report", "reproduce", "algorithms", "demo",
    "data", "data list", "data show", "data pull", "data import", "data check", "data remove",
)  # fmt: skip
