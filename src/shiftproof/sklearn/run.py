"""A training run of an estimator: its configuration, its messages, and errors as `ValueError`s."""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sklearn.utils import check_random_state

from shiftproof.core.errors import InvalidValue, ShiftproofError, UnknownName
from shiftproof.core.space import Regime, specs
from shiftproof.data import DomainDataset
from shiftproof.inference.model import TrainedModel
from shiftproof.inference.model_of_run import trained_model
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.learners.estimator import ESTIMATOR
from shiftproof.sweeps.presets import Preset
from shiftproof.training.averaging import AVERAGES
from shiftproof.training.config import RunConfig
from shiftproof.training.configure import configure, default_holdout
from shiftproof.training.loop import train
from shiftproof.training.observers import Observer
from shiftproof.training.records import Record, shown_measure

LINE_SECONDS = 2.0


class EstimatorError(ShiftproofError, ValueError):
    """A Shiftproof error that is also a `ValueError`, as scikit-learn and its users expect."""


@contextmanager
def value_errors() -> Iterator[None]:
    """Raise Shiftproof's errors as `ValueError`s."""
    try:
        yield
    except ShiftproofError as error:
        if isinstance(error, EstimatorError):
            raise
        raise EstimatorError(str(error)) from error


class Reporter(Observer):
    """Turns the notes of a run into warnings and, if `verbose`, prints progress."""

    def __init__(self, title: str, steps: int, *, verbose: bool) -> None:
        self._title = title
        self._steps = steps
        self._verbose = verbose
        self._printed = 0.0

    def note(self, text: str) -> None:
        """Issue a warning."""
        warnings.warn(text, stacklevel=2)

    def loading(self, what: str, done: int, total: int) -> None:
        """Print how much of the data has been read."""
        self._print(f"{what}: {done} of {total}", always=False)

    def record(self, record: Record) -> None:
        """Print the loss, and the accuracies on the held-out parts."""
        scores = "".join(
            f"  {name} {value:.3f}" for name, value in shown_measure(record)[1].items()
        )
        line = f"{self._title}: step {record['step']} of {self._steps}  loss {record['loss']:.4g}"
        self._print(line + scores, always=record["step"] == self._steps)

    def _print(self, line: str, *, always: bool) -> None:
        now = time.monotonic()
        if self._verbose and (always or now - self._printed >= LINE_SECONDS):
            self._printed = now
            print(line, flush=True)


# The weights to predict with, and their names in the training loop.
SELECTIONS = {"last": "none", "training-domain": "best", "ema": "ema", "swad": "swad"}
# A short run is evaluated about this often, so that there are weights to choose from …
EVALUATIONS = 20
# … but with at least this many steps in between.
FEWEST_STEPS_BETWEEN = 10


def train_model(
    params: Mapping[str, Any], dataset: DomainDataset, reporter: Reporter
) -> tuple[TrainedModel, list[Record]]:
    """Train with the parameters of an estimator; return the model and the training records."""
    config = configuration(params, dataset)
    with TemporaryDirectory(prefix="shiftproof-") as folder:
        # This run is never resumed, so it needs no checkpoint before its end.
        result = train(config, dataset, Path(folder), reporter, float("inf"))
        if result.status == "stopped":
            raise KeyboardInterrupt  # the training loop caught it to complete the current step
        if result.status == "diverged":
            raise InvalidValue(
                f"training diverged: the loss of step {result.step} is not finite; try a smaller"
                ' learning rate, such as `hparams={"lr": 1e-4}`'
            )
        if result.final.get("weights", {}).get("average") == "raw":
            reporter.note(
                f"{params['selection']} found nothing to average in {config.steps} steps, so the"
                " last weights are used; raise `steps` or choose another `selection`"
            )
        return trained_model(config, dataset, Path(folder), fit=result.fit), result.records


def configuration(params: Mapping[str, Any], dataset: DomainDataset) -> RunConfig:
    """Convert the parameters of an estimator to the configuration of a run."""
    if params["selection"] not in SELECTIONS:
        raise UnknownName("selection", str(params["selection"]), SELECTIONS)
    if not isinstance(params["steps"], numbers.Integral):
        raise InvalidValue(f"`steps` must be a whole number, not {params['steps']!r}")
    steps = int(params["steps"])  # a search may pass a NumPy integer, which JSON cannot store
    average = SELECTIONS[params["selection"]]
    holdout = params["holdout"]
    if holdout is None:
        named = isinstance(params["algorithm"], str)
        holdout = default_holdout(ALGORITHMS.get(params["algorithm"] if named else ESTIMATOR))
    held_out = min(int(len(domain) * holdout) for domain in dataset.domains)
    return configure(
        dataset,
        params["algorithm"],
        backbone=params["backbone"],
        hparams={
            **_schedule(params["algorithm"], dataset.regime, steps),
            **(params["hparams"] or {}),
        },
        steps=steps,
        eval_every=min(dataset.eval_every, max(FEWEST_STEPS_BETWEEN, steps // EVALUATIONS)),
        # Without held-out samples there is no evaluation, and selection by it is an error.
        evaluate=["train-out"] if held_out or AVERAGES[average].judges else [],
        holdout=float(holdout),
        seed=_seed(params["random_state"]),
        device=params["device"],
        precision=params["precision"],
        average=average,
        fewest_training_domains=1,
        loss=params.get("loss"),
    )


def _schedule(algorithm: Any, regime: Regime, steps: int) -> dict[str, object]:
    """Return the hyper-parameters that count steps, scaled as in the presets of sweeps."""
    if not isinstance(algorithm, str):
        return {}
    size = Preset("estimator", steps=steps, evaluations=EVALUATIONS)
    return {
        name: size.sized(name, spec.at(regime).default, spec.unit)
        for name, spec in specs(ALGORITHMS.get(algorithm).Hparams).items()
        if spec.unit == "steps"
    }


def _seed(random_state: Any) -> int:
    if not isinstance(random_state, numbers.Integral):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if random_state < 0:
        raise InvalidValue(f"`random_state` must be at least 0, not {random_state}")
    return int(random_state)
