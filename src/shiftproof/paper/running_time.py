"""The overhead of IDM over ERM: time and memory of a step at the default batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from shiftproof.core.errors import DataError, UnknownName
from shiftproof.core.files import read_json, write_json
from shiftproof.core.space import resolve
from shiftproof.core.types import Batch, Task
from shiftproof.data import DATASETS
from shiftproof.learners.algorithms import ALGORITHMS, Algorithm
from shiftproof.models import MODELS
from shiftproof.paper.comparison import Cell, Comparison, Row, measured
from shiftproof.paper.measure import allocated_peak, machine, medians, ratio_of, seconds_in_turn
from shiftproof.paper.published import paper_table
from shiftproof.paper.studies import Findings
from shiftproof.sweeps.estimate import bytes_of
from shiftproof.sweeps.presets import PROTOCOL_STEPS
from shiftproof.training.configure import choose_device
from shiftproof.training.trainer import torch_threads

NAME = "running-time"
ROUNDS = 15
GIGABYTE = 1e9


@dataclass(frozen=True)
class Timing:
    """Seconds and peak bytes of a step, by algorithm; ``ratio`` is the median over rounds."""

    dataset: str
    seconds: dict[str, float]
    ratio: float
    bytes: dict[str, int]
    device: str
    machine: dict[str, object]


def built(
    name: str,
    task: Task,
    backbone: str,
    model: dict[str, object] | None = None,
    hparams: dict[str, object] | None = None,
) -> Algorithm:
    """Return an algorithm with its network, built with fixed seeds."""
    torch.manual_seed(0)
    cls = ALGORITHMS.get(name)
    network = resolve(MODELS.get(backbone), task.regime, model or {}).build(cls.network_task(task))
    settings = resolve(cls.Hparams, task.regime, hparams or {})
    generator = torch.Generator().manual_seed(0)
    algorithm: Algorithm = cls(task, network.featurizer, network.head, settings, generator)
    return algorithm


def batch_for(task: Task, size: int, seed: int = 0) -> Batch:
    """Return a batch of random inputs and labels for a task."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(task.num_domains, size, *task.input_shape, generator=generator)
    return Batch(x, torch.randint(task.num_classes, x.shape[:2], generator=generator))


def relative_cost(name: str) -> float:
    """Return the time of a step relative to a step of ERM, after every warm-up.

    Uses DomainBed's network for digits on 3 domains × 8 random images, and four steps per round,
    because the steps of some algorithms differ.  One thread is used: on a busy machine, several
    would take minutes, because they wait for each other.
    """
    task = Task((2, 28, 28), num_classes=2, num_domains=3, regime="small-image")
    sides = {"erm": built("erm", task, "mnist-cnn"), "other": built(name, task, "mnist-cnn")}
    batch = batch_for(task, 8)
    for side in sides.values():
        side.updates = 10**9  # after every warm-up: each penalty acts
        side.train()

    def four_steps(side: Algorithm) -> None:
        for _ in range(4):
            side.update(batch)

    works = {key: partial(four_steps, side) for key, side in sides.items()}
    with torch_threads(1):
        return ratio_of(seconds_in_turn(works, rounds=3), "other", "erm")


def time_steps(dataset: str, device: str, rounds: int = ROUNDS) -> Timing:
    """Measure steps of ERM and IDM in turn, on random inputs of a dataset's shape.

    IDM is measured without warm-up: it matches at every step.
    """
    card = DATASETS.get(dataset).card
    task = Task(card.input_shape, len(card.classes), len(card.counts) - 1, card.regime)
    random: dict[str, object] = {} if card.regime == "small-image" else {"weights": "random"}
    sides = {
        "erm": built("erm", task, card.backbone, random),
        "idm": built("idm", task, card.backbone, random, {"gradient_warmup": 0}),
    }
    random_batch = batch_for(task, sides["erm"].hparams.batch_size)
    batch = Batch(random_batch.x.to(device), random_batch.y.to(device))
    for side in sides.values():
        side.to(device)
        side.reset_optimizer()
    works = {name: partial(_step, side, batch, device) for name, side in sides.items()}
    taken = seconds_in_turn(works, rounds, 2)
    peaks = {name: _peak(work, device) for name, work in works.items()}
    held = {name: bytes_of(side.training_state()) for name, side in sides.items()}
    return Timing(
        dataset,
        medians(taken),
        ratio_of(taken, "idm", "erm"),
        {name: peaks[name] + held[name] for name in sides},
        device,
        machine(),
    )


def reproduce_timings(
    datasets: Sequence[str] | None, folder: Path, device: str, tell: Callable[[str], None]
) -> Findings:
    """Measure timings missing in ``folder``, and compare all timings of a device with the paper.

    The default leaves out the datasets whose network takes minutes per step on a CPU.
    """
    known = [row.ours for row in paper_table(NAME).rows]
    for dataset in datasets or ():
        if dataset not in known:
            raise UnknownName("dataset of this study", dataset, known)
    device = choose_device(device)
    for dataset in datasets or ("colored-mnist", "rotated-mnist"):
        path = folder / f"{dataset}-{device.replace(':', '-')}.json"
        if not path.exists():
            tell(dataset)
            folder.mkdir(parents=True, exist_ok=True)
            write_json(path, asdict(time_steps(dataset, device)))
    timings = [read_timing(path) for path in sorted(folder.glob("*.json"))]
    return Findings((compare_timings([t for t in timings if t.device == device]),))


def read_timing(path: Path) -> Timing:
    """Read a timing that `reproduce_timings` wrote."""
    try:
        timing = Timing(**read_json(path, remedy="delete it to measure again"))
        _columns(timing)
        return timing
    except (TypeError, KeyError) as error:
        raise DataError(f"{path} is damaged ({error}); delete it to measure again") from error


def compare_timings(timings: Sequence[Timing]) -> Comparison:
    """Return the paper's table with our timings beside it."""
    table = paper_table(NAME)
    known = {timing.dataset: timing for timing in timings}
    rows = []
    for row in table.rows:
        timing = known.get(row.ours)
        ours = [None] * len(row.values) if timing is None else _columns(timing)
        cells = [
            Cell(paper, None if value is None else measured([value]))
            for paper, value in zip(row.values, ours, strict=True)
        ]
        rows.append(Row(row.name, (), tuple(cells)))
    devices = sorted({timing.device for timing in timings})
    notes = (
        f"Ours: {PROTOCOL_STEPS:,} times the median step, without evaluations, on"
        f" {', '.join(devices)}; the paper's hours are from its GPU, so only the overheads can be"
        " compared.",
        "Our IDM matches at every step, as it does after the warm-up, so the overhead of a whole"
        " run is lower.",
        "Our memory: weights, moments and averages, plus the peak allocation of a step.",
        *table.notes,
    )
    return Comparison(
        NAME,
        "Computational overhead of IDM (Table 11)",
        # The unit is %, or in brackets in the heading of the group.
        tuple(
            f"{column.group.partition(' (')[0]}: {column.name} (%)"
            if column.unit == "%"
            else f"{column.group}: {column.name}"
            for column in table.columns
        ),
        tuple(rows),
        unit="",
        comparable=False,
        counts_runs=False,
        notes=notes,
    )


def _columns(timing: Timing) -> list[float | None]:
    """Return hours of ERM and IDM and the overhead in percent, then the same for gigabytes."""
    hours = [timing.seconds[name] * PROTOCOL_STEPS / 3600 for name in ("erm", "idm")]
    size = [timing.bytes[name] / GIGABYTE for name in ("erm", "idm")]
    return [*hours, 100 * (timing.ratio - 1), *size, 100 * (size[1] / size[0] - 1)]


def _step(algorithm: Algorithm, batch: Batch, device: str) -> None:
    algorithm.update(batch)
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def _peak(work: Callable[[], None], device: str) -> int:
    """Return the peak memory of a step, beyond what is allocated between steps."""
    if not device.startswith("cuda"):
        return allocated_peak(work)
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    work()
    return torch.cuda.max_memory_allocated() - held
