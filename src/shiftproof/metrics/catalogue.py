"""The metrics of this package, in the order of report cards."""

from __future__ import annotations

from typing import Any

from shiftproof.core.types import CLASSIFICATION, REGRESSION
from shiftproof.metrics import calibration, classification as classes, regression as numbers
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
from shiftproof.metrics.classification import jackknifed
from shiftproof.metrics.regression import COVERAGE_LEVEL, coverage_estimates

BOTH, NUMBERS = (CLASSIFICATION, REGRESSION), (REGRESSION,)
LOSS: dict[str, Any] = {"best": LOWER, "scale": LOGARITHM}
ERROR: dict[str, Any] = {"tasks": NUMBERS, "unit": OF_LABEL, **LOSS}

METRICS.register("accuracy")(
    Metric(classes.accuracy, scale=LOG_ODDS, additive=classes.additive_accuracy, unit=SHARE)
)
METRICS.register("balanced_accuracy")(
    Metric(
        classes.balanced_accuracy,
        scale=LOG_ODDS, additive=classes.additive_balanced_accuracy, unit=SHARE,
    )
)  # fmt: skip
METRICS.register("auroc")(
    Metric(classes.auroc, scale=LOG_ODDS, additive=classes.additive_auroc, title="AUROC")
)
METRICS.register("average_precision")(
    Metric(
        classes.average_precision,
        scale=LOG_ODDS, additive=jackknifed(classes.average_precision), in_card=False,
    )
)  # fmt: skip
METRICS.register("f1")(
    Metric(classes.f1, scale=LOG_ODDS, additive=jackknifed(classes.f1), title="F1", in_card=False)
)
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
    Metric(calibration.slope, tasks=BOTH, best=1, additive=calibration.slope_fit, in_card=False)
)
METRICS.register("calibration_intercept")(
    Metric(
        calibration.intercept,
        tasks=BOTH, best=0, additive=calibration.intercept_fit, in_card=False,
    )
)  # fmt: skip
METRICS.register("calibration_error")(
    Metric(
        calibration.expected_error,
        best=LOWER, scale=LOG_ODDS, unit=SHARE,
        additive=jackknifed(calibration.expected_error, by_class=False),
    )
)  # fmt: skip
METRICS.register("interval_coverage")(
    Metric(
        lambda _: None,
        tasks=NUMBERS, best=COVERAGE_LEVEL, scale=LOG_ODDS, jointly=coverage_estimates,
    )
)  # fmt: skip
METRICS.register("commonest_class")(
    Metric(classes.commonest_class, unit=SHARE, in_card=False, expected=False)
)
