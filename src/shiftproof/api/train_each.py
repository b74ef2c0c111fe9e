"""`train_each`: train with each domain held out in turn."""

from __future__ import annotations

import hashlib
import html
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from shiftproof.api.load import Data
from shiftproof.api.parallel import processes_for, train_runs
from shiftproof.api.run_folders import as_folder, folder_of
from shiftproof.api.settings import LearningSettings, TrainEachSettings
from shiftproof.api.train import check_metric, prepare
from shiftproof.api.trained_run import TrainedRun, adaptation_entry
from shiftproof.core.settings import keywords
from shiftproof.core.standardize import ADAPTATION
from shiftproof.core.types import CLASSIFICATION
from shiftproof.inference.expected import Expected
from shiftproof.learners.base import ALGORITHMS
from shiftproof.metrics.base import DEFAULT, mean_scores, worst_scores
from shiftproof.metrics.outputs import AnyOutputs
from shiftproof.training.held_out import AnyHeldOut, held_out_score
from shiftproof.training.observers import Observer

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LeaveOneOut:
    """One run and one score for each held-out domain.

    An interrupted call has fewer; `status` is then `stopped`, and the same call resumes.  `metric`
    is the score that `expected` shows first.  `classes` are the names of the classes, and `targets`
    is the name of the predicted number; one of them is empty.
    """

    runs: tuple[TrainedRun, ...]
    scores: tuple[AnyHeldOut, ...]
    metric: str = DEFAULT[CLASSIFICATION]
    classes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """`finished` if all runs finished, else `stopped` or `diverged`."""
        statuses = {run.status for run in self.runs}
        return next((s for s in ("stopped", "diverged") if s in statuses), "finished")

    @property
    def mean(self) -> float:
        """Mean accuracy, or R² in regression, on the held-out domains."""
        return fmean(score.shown for score in self.scores)

    @property
    def worst(self) -> AnyHeldOut:
        """The held-out domain with the lowest accuracy, or R²."""
        return min(self.scores, key=lambda score: (math.isnan(score.shown), score.shown))

    @property
    def predicts_numbers(self) -> bool:
        """Whether the task is regression."""
        return bool(self.targets)

    @property
    def outputs(self) -> dict[str, AnyOutputs]:
        """The model outputs and labels of the samples of each held-out domain, by domain."""
        return {domain: outputs for run in self.runs for domain, outputs in run.outputs.items()}

    @cached_property
    def expected(self) -> Expected:
        """What to expect at the next domain."""
        text = ADAPTATION[self.runs[0].config.standardize] if self.runs else ""
        return Expected(
            self.outputs, self.metric, classes=self.classes, adaptation=text, targets=self.targets
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per held-out domain: scores and the status of the run."""
        import pandas as pd

        rows = [
            {**asdict(score), "status": run.status, "seconds": run.seconds, "folder": run.folder}
            for score, run in zip(self.scores, self.runs, strict=True)
        ]
        return pd.DataFrame(rows).set_index("domain")

    def to_dict(self, at_least: float | None = None) -> dict[str, Any]:
        """Return the result as JSON values.

        `runs` has one entry per held-out domain, with its `metrics`; `mean` is the mean of each
        metric, and `worst` its lowest value (highest for losses).  `expected` is what to expect at
        the next domain.  With `at_least`, the result includes the probability that the next domain
        is worse than this threshold.
        """
        of_domains = [scores for run in self.runs for scores in run.scores.values()]
        finished = at_least is not None and self.status == "finished"
        expected = replace(self.expected, at_least=at_least)
        return {
            "runs": [run.to_dict() for run in self.runs],
            "mean": mean_scores(of_domains),
            "worst": worst_scores(of_domains),
            "metric": self.metric,
            "expected": expected.expected,
            **({"at_least": expected.threshold} if finished else {}),
            "seconds": round(sum(run.seconds for run in self.runs), 3),
            **adaptation_entry(self.runs[0].config),
        }

    def _repr_html_(self) -> str:
        config = self.runs[0].config
        title = f"{config.title} on {config.dataset}, each domain held out in turn"
        frame = self.to_frame().drop(columns=["seconds", "folder"])
        shares = ["accuracy", "commonest_class", "training_domains", "auroc"]
        formatters = dict.fromkeys([] if self.predicts_numbers else shares, "{:.1%}".format)
        table = frame.to_html(formatters=formatters, float_format="{:.4g}".format)
        worst, digits = self.worst, ".3f" if self.predicts_numbers else ".1%"
        summary = f"mean {self.mean:{digits}}, worst {worst.shown:{digits}} ({worst.domain})"
        return f"<h4>{html.escape(title)}</h4>{table}<p>{html.escape(summary)}</p>"


@keywords(TrainEachSettings)
def train_each(data: Data, settings: TrainEachSettings) -> LeaveOneOut:
    """Train one model for each domain, with that domain held out; the data is loaded once.

    The parameters are those of `train`.  With `out`, each run gets a subfolder named after the
    held-out domain.  Algorithms that are fitted at once run in as many processes as cores and
    memory allow, if they take long.

    Args:
        data: data as for `load`, whose keywords (`label`, `domain`, …) are also accepted here.
    """
    folder, observer, metric = folder_of(settings.out), settings.observer, settings.metric
    dataset, settings = prepare(data, settings, observer or Observer())
    check_metric(dataset, metric)  # before training
    names = dataset.domain_names
    folders = {name: folder and folder / _name(name) for name in names}
    algorithm = settings.algorithm
    at_once = algorithm in ALGORITHMS and ALGORITHMS.get(algorithm).exact  # not a user's estimator
    processes = processes_for(dataset, len(names)) if at_once else 1
    same = settings.but(out=None, observer=None).given(LearningSettings)
    runs = train_runs(folders, dataset, same, observer or Observer(), processes)
    scores = [
        held_out_score(
            run.config, run.metrics, dataset, run.scores.get(run.config.test_domains[0], {})
        )
        for run in runs
    ]
    return LeaveOneOut(
        tuple(runs),
        tuple(scores),
        metric or DEFAULT[dataset.kind],
        () if dataset.target else dataset.classes,
        dataset.targets,
    )


def _name(domain: str) -> str:
    """Return a folder name for a domain; a hash distinguishes names with replaced characters.

    >>> _name("10%"), _name("west & east")
    ('10%', 'west_east-3f7a2d49')
    """
    plain = as_folder(domain)
    if plain == domain:
        return plain
    return f"{plain}-{hashlib.sha256(domain.encode()).hexdigest()[:8]}"
