"""Expected performance of a model at the next domain, from scores on domains held out in turn.

Each held-out domain gives an estimate of a score with its sampling error (`estimates`).  A
meta-analysis of these (`meta_analysis`) gives the score of a typical domain and,
more useful, a prediction interval for the *next* domain: domains differ, and a mean with its
standard error does not show by how much.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shiftproof.core.errors import DataError, InvalidValue
from shiftproof.core.text import listed, three_digits
from shiftproof.core.types import CLASSIFICATION, Kind
from shiftproof.metrics import METRICS, Metric, NumberOutputs, Outputs
from shiftproof.metrics.base import DEFAULT, LEVEL, Estimate, scores
from shiftproof.metrics.outputs import AnyOutputs, confusion, pooled, task_of
from shiftproof.statistics.meta_analysis import FEW, Predictive, outlier_p_values, predictive

if TYPE_CHECKING:
    import pandas as pd

    from shiftproof.inference.model import TrainedModel

# A domain is an outlier if its corrected p-value is below this level.
OUTLIER = 0.05


@dataclass(frozen=True)
class ExpectedScore:
    """Expected value of one score at the next domain.

    `mean` is the mean over domains on the additive scale: half of the domains are better.
    `interval` contains the score of the next domain with probability `level`.  `predictive` is its
    distribution on the additive scale.  `estimates` are the estimates of the held-out domains, and
    `outliers` the domains that do not fit the others.
    """

    metric: Metric
    level: float
    estimates: Mapping[str, Estimate]
    predictive: Predictive
    outliers: tuple[str, ...]

    @property
    def mean(self) -> float:
        """The score of a typical domain: the mean on the additive scale; half are better."""
        return self.metric.scale.back(self.predictive.mean)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The prediction interval of the next domain at `level`."""
        return self._back(self.predictive.interval(self.level))

    @cached_property
    def mean_interval(self) -> tuple[float, float]:
        """The confidence interval of the mean over domains at `level`."""
        return self._back(self.predictive.mean_interval(self.level))

    def probability_worse(self, threshold: float) -> float:
        """Return the probability that the next domain scores worse than a threshold."""
        below = self.predictive.below(self.metric.scale.there(threshold))
        return self.metric.worse(below)

    def holds(self, estimate: Estimate) -> tuple[float, float]:
        """Return the prediction interval of an observed score, with its sampling error."""
        return self._back(self.predictive.interval(self.level, estimate.variance))

    def _back(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the bounds of an interval on the scale of the score."""
        return self.metric.scale.back(bounds[0]), self.metric.scale.back(bounds[1])

    @property
    def note(self) -> str:
        """A sentence if there are few domains, and one on outliers; empty if neither applies."""
        texts = []
        if (k := len(self.estimates)) < FEW:
            texts.append(
                f"{k} domains hardly show how much domains differ, so the interval is wide; more"
                " domains would narrow it."
            )
        if self.outliers:
            texts.append(f"Unlike the other domains: {listed(self.outliers)}.")
        return " ".join(texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the expected score as JSON values."""
        low, high = self.interval
        return {
            "mean": self.mean,
            "low": low,
            "high": high,
            "level": self.level,
            "tau": self.predictive.tau,
            "domains": len(self.estimates),
            "outliers": list(self.outliers),
        }


def expected_score(
    metric: Metric, estimates: Mapping[str, Estimate | None], level: float = LEVEL
) -> ExpectedScore | None:
    """Return the expected score, or None if it is defined in fewer than two domains."""
    known = {domain: estimate for domain, estimate in estimates.items() if estimate is not None}
    if len(known) < 2:
        return None
    values = np.array([estimate.additive for estimate in known.values()])
    variances = np.array([estimate.variance for estimate in known.values()])
    p_values = outlier_p_values(values, variances)
    outliers = tuple(domain for domain, p in zip(known, p_values, strict=True) if p < OUTLIER)
    return ExpectedScore(metric, level, known, predictive(values, variances), outliers)


def check_asked(
    metric: str | None = None,
    level: float = LEVEL,
    at_least: float | None = None,
    task: Kind | None = None,
) -> None:
    """Raise unless a score, the level of its interval and its threshold are possible."""
    metric = METRICS.checked(metric or DEFAULT[task or CLASSIFICATION], task)
    if not 0 < level < 1:
        raise InvalidValue(f"`level` must be between 0 and 1, not {level:g}")
    if at_least is not None:
        METRICS.get(metric).check_threshold(at_least)


@dataclass(frozen=True)
class Expected:
    """Expected scores at the next domain; `outputs` are predictions for domains held out in turn.

    `metric` is the score shown by `to_frame` and in notebooks, `level` the level of its intervals,
    and `at_least` a threshold for it.  `classes` are the class names, if known.  `adaptation`
    describes how the models use the rows of the held-out domain; it is empty if they do not.
    `targets` is the name of the predicted number, and empty for classes.
    """

    outputs: Mapping[str, AnyOutputs]
    metric: str = ""
    level: float = LEVEL
    at_least: float | None = None
    classes: tuple[str, ...] = ()
    adaptation: str = ""
    targets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.metric:
            object.__setattr__(self, "metric", DEFAULT[self.task or CLASSIFICATION])
        check_asked(self.metric, self.level, self.at_least, self.task)

    def asked(
        self, metric: str | None = None, level: float = LEVEL, at_least: float | None = None
    ) -> Expected:
        """Return the same predictions with another score, level or threshold."""
        return replace(self, metric=metric or self.metric, level=level, at_least=at_least)

    def require_task_of(self, model: TrainedModel) -> None:
        """Raise unless a model has the same classes or targets and adapts in the same way."""
        differing = {
            "predict": (self.targets, model.targets),
            "have the classes": (self.classes, model.classes),
        }
        for verb, (ours, theirs) in differing.items():
            if ours != theirs:
                raise DataError(
                    f"the held-out runs {verb} {listed(ours) or 'classes'}, and the model"
                    f" {listed(theirs) or 'classes'}; give runs of the same task"
                )
        if self.adaptation != model.standardized:
            raise DataError(
                f"the held-out runs are {self.adaptation or 'not standardized'}, and the model is"
                f" {model.standardized or 'not'}; give runs with the same `standardize`"
            )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the available scores."""
        return METRICS.of(self.task)

    @property
    def task(self) -> Kind | None:
        """The kind of task; None without outputs."""
        return task_of(self.outputs.values())

    @property
    def numbers(self) -> dict[str, NumberOutputs]:
        """The outputs of regression models; empty for classifiers."""
        return {d: part for d, part in self.outputs.items() if isinstance(part, NumberOutputs)}

    @property
    def of_classes(self) -> dict[str, Outputs]:
        """The class probabilities; empty for regression models."""
        return {d: part for d, part in self.outputs.items() if isinstance(part, Outputs)}

    def score(self, metric: str) -> ExpectedScore | None:
        """Return the expected score; None if it is defined in fewer than two domains."""
        if metric not in self._scores:
            checked = METRICS.get(METRICS.checked(metric, self.task))
            estimates = checked.estimates(self.outputs, self.level)
            self._scores[metric] = expected_score(checked, estimates, self.level)
        return self._scores[metric]

    def estimates(self, metric: str) -> dict[str, Estimate | None]:
        """Return a score of each domain with its confidence interval."""
        return METRICS.get(metric).estimates(self.outputs, self.level)

    @cached_property
    def _scores(self) -> dict[str, ExpectedScore | None]:
        return {}

    @property
    def headline(self) -> ExpectedScore:
        """The expected value of `metric`, with its intervals."""
        if (score := self.score(self.metric)) is None:
            raise DataError(
                f"{self.metric} is defined in fewer than two of {len(self.outputs)} held-out"
                " domains, and one domain does not show how domains differ; use another `metric`"
            )
        return score

    @property
    def probability_worse(self) -> float | None:
        """Probability that the next domain scores worse than `at_least`; None if not set."""
        return None if self.at_least is None else self.headline.probability_worse(self.at_least)

    @property
    def threshold(self) -> dict[str, float | None]:
        """The threshold, and the probability that the next domain scores worse, as JSON values."""
        return {"value": self.at_least, "worse": self.probability_worse}

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: `expected` by score, and the report card of each domain."""
        result: dict[str, Any] = {"metric": self.metric, "expected": self.expected}
        if self.at_least is not None:
            result["at_least"] = self.threshold
        if self.adaptation:
            result["adaptation"] = self.adaptation
        result["domains"] = [
            {
                "domain": domain,
                "samples": len(part.labels),
                "scores": scores(part),
                "intervals": {
                    metric: [value.low, value.high]
                    for metric, score in self._scores.items()
                    if score is not None and (value := score.estimates.get(domain)) is not None
                },
                **({"confusion": confusion(part)} if isinstance(part, Outputs) else {}),
            }
            for domain, part in self.outputs.items()
        ]
        return result

    @property
    def expected(self) -> dict[str, dict[str, Any]]:
        """Every expected score that is defined in at least two domains, as JSON values."""
        known = {metric: self.score(metric) for metric in self.metrics}
        return {metric: score.to_dict() for metric, score in known.items() if score is not None}

    def to_frame(self) -> pd.DataFrame:
        """Return `metric` for each domain and for the next domain, with intervals."""
        import pandas as pd

        score = self.headline
        rows = [
            {
                "domain": domain,
                "samples": len(self.outputs[domain].labels),
                self.metric: estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "outlier": domain in score.outliers,
            }
            for domain, estimate in score.estimates.items()
        ]
        low, high = score.interval
        rows.append({"domain": "next domain", self.metric: score.mean, "low": low, "high": high})
        return pd.DataFrame(rows).set_index("domain")

    def card(self) -> pd.DataFrame:
        """Return all scores, one row for each domain and one for all samples pooled."""
        import pandas as pd

        parts = {**self.outputs, "pooled": pooled(list(self.outputs.values()))}
        rows = {name: {"samples": len(part.labels), **scores(part)} for name, part in parts.items()}
        return pd.DataFrame.from_dict(rows, orient="index")

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(float_format="{:.3f}".format, na_rep="")
        text = " ".join(sentences(self))
        return f"{table}<p>{html.escape(text)}</p>"


def sentences(expected: Expected) -> list[str]:
    """Return sentences on the interval, the probability of falling short, and notes."""
    score = expected.headline
    low, high = score.interval
    metric = METRICS.get(expected.metric)
    texts = [
        f"Expect {metric.phrase} {three_digits(low)} to {three_digits(high)} at the next domain"
        f" with probability {score.level:.0%}; {three_digits(score.mean)} at a typical one."
    ]
    if (worse := expected.probability_worse) is not None:
        texts.append(
            f"The probability that the next domain is {metric.worse_side} {expected.at_least:g} is"
            f" {worse:.2g}."
        )
    if expected.adaptation:
        texts.append(
            f"This is adaptation ({expected.adaptation}): it uses the rows of the new domain,"
            " without labels."
        )
    return [*texts, score.note] if score.note else texts
