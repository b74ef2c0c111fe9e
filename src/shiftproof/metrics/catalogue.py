"""The metrics of this package, in the order of report cards."""

from __future__ import annotations

from typing import Any

from shiftproof.core.types import CLASSIFICATION, REGRESSION
from shiftproof.metrics import classification as classes, regression as numbers
from shiftproof.metrics.base import (
    LOG_ODDS,
    LOGARITHM,
    LOWER,
    METRICS,
    OF_LABEL,
    SHARE,
    UNEXPLAINED,
    Metric,
)
from shiftproof.metrics.calibration import (
    expected_error,
    fitted_intercept,
    fitted_slope,
    value_of,
    with_error,
)
from shiftproof.metrics.classification import jackknifed
from shiftproof.metrics.regression import COVERAGE_LEVEL, coverage_estimates

NUMBERS = (REGRESSION,)
SHARES: dict[str, Any] = {"scale": LOG_ODDS, "unit": SHARE}
ODDS: dict[str, Any] = {"scale": LOG_ODDS, "in_card": False}
LOSS: dict[str, Any] = {"best": LOWER, "scale": LOGARITHM}
ERROR: dict[str, Any] = {"tasks": NUMBERS, "unit": OF_LABEL, **LOSS}
FIT: dict[str, Any] = {"tasks": (CLASSIFICATION, REGRESSION), "in_card": False}

METRICS.register("accuracy")(Metric(classes.accuracy, additive=classes.additive_accuracy, **SHARES))
METRICS.register("balanced_accuracy")(
    Metric(classes.balanced_accuracy, additive=classes.additive_balanced_accuracy, **SHARES)
)
METRICS.register("auroc")(
    Metric(classes.auroc, scale=LOG_ODDS, additive=classes.additive_auroc, title="AUROC")
)
METRICS.register("average_precision")(
    Metric(classes.average_precision, additive=jackknifed(classes.average_precision), **ODDS)
)
METRICS.register("f1")(Metric(classes.f1, additive=jackknifed(classes.f1), title="F1", **ODDS))
METRICS.register("log_loss")(
    Metric(classes.log_loss, additive=classes.additive_log_loss, in_card=False, **LOSS)
)
METRICS.register("brier")(
    Metric(classes.brier, additive=classes.additive_brier, in_card=False, **LOSS)
)
METRICS.register("r2")(
    Metric(numbers.r2, tasks=NUMBERS, scale=UNEXPLAINED, additive=numbers.additive_r2, title="R²")
)
METRICS.register("mae")(Metric(numbers.mae, additive=numbers.additive_mae, title="MAE", **ERROR))
METRICS.register("rmse")(
    Metric(numbers.rmse, additive=numbers.additive_rmse, title="RMSE", **ERROR)
)
METRICS.register("calibration_slope")(
    Metric(value_of(fitted_slope), best=1, additive=with_error(fitted_slope), **FIT)
)
METRICS.register("calibration_intercept")(
    Metric(value_of(fitted_intercept), best=0, additive=with_error(fitted_intercept), **FIT)
)
METRICS.register("calibration_error")(
    Metric(
        expected_error, best=LOWER, additive=jackknifed(expected_error, by_class=False), **SHARES
    )
)
METRICS.register("interval_coverage")(
    Metric(
        lambda _: None,
        tasks=NUMBERS, best=COVERAGE_LEVEL, scale=LOG_ODDS, jointly=coverage_estimates,
    )
)  # fmt: skip
METRICS.register("commonest_class")(
    Metric(classes.commonest_class, unit=SHARE, in_card=False, expected=False)
)
