"""`python -m benchmarks.regression PATH[:LABEL:DOMAIN] …`: learners of numbers on tables.

As `benchmarks.tables`, whose code it is: each domain is held out in turn, outcomes are appended to
a file, and what is there is not run again.  On the page, MAE and RMSE are in standard deviations of
the label over the whole table (`mae_sd`, `rmse_sd`), so that tables can be averaged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.tables import Metric, Study, main as run

REGRESSION = Study(
    "regression",
    "Numbers: every domain held out in turn",
    {"mae_sd": Metric(-1, 1.0, 4), "rmse_sd": Metric(-1, 1.0, 4), "r2": Metric(1, 1.0, 4)},
    (("task", "regression"),),
    domain_by_domain=True,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and write the page."""
    return run(arguments, REGRESSION)


if __name__ == "__main__":
    sys.exit(main())
