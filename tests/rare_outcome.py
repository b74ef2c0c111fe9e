"""A simulated cohort as clinical data scientists have it: hospitals, and a rare outcome."""

from __future__ import annotations

import numpy as np
import pandas as pd

NAMES = ("Köln", "Jena", "Ulm", "Bonn", "Kiel", "Mainz", "Trier", "Halle")


def cohort(
    seed: int,
    *,
    patients: int = 3000,
    hospitals: int = 6,
    prevalence: float = 0.088,
    words: tuple[str, str] = ("nein", "ja"),
    tiny: int = 12,
    other_unit: bool = True,
) -> pd.DataFrame:
    """Return patients with an outcome in a share of about `prevalence`.

    `words` are the labels without and with the outcome.  The last hospital has `tiny` patients, all
    without the outcome (none if 0).  The second hospital recorded C-reactive protein in mg/dl, the
    others in mg/l.  There are missing values, an id, dates and free text.
    """
    rng = np.random.default_rng(seed)
    large = hospitals - bool(tiny)
    sizes = rng.multinomial(patients - tiny, rng.dirichlet(np.full(large, 8.0)))
    site = np.repeat(np.arange(hospitals), [*sizes, *[tiny] * bool(tiny)])
    n = len(site)
    age = rng.normal(62, 12, n) + rng.normal(0, 3, hospitals)[site]
    crp = np.exp(rng.normal(1.8, 0.9, n))
    pressure = rng.normal(128, 18, n)
    sepsis = rng.random(n) < 0.15
    signal = 0.05 * (age - 62) + 0.5 * (np.log(crp) - 1.8) + 0.9 * sepsis - 0.01 * (pressure - 128)
    signal += rng.normal(0, 0.3, hospitals)[site]
    low, high = -20.0, 20.0
    for _ in range(60):  # bisection for the intercept that gives the prevalence
        middle = (low + high) / 2
        above = (1 / (1 + np.exp(-(signal + middle)))).mean() > prevalence
        low, high = (low, middle) if above else (middle, high)
    event = rng.random(n) < 1 / (1 + np.exp(-(signal + low)))
    if tiny:
        event[site == hospitals - 1] = False
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame = pd.DataFrame(
        {
            "patient": [f"P{number:05d}" for number in rng.permutation(n)],
            "hospital": np.array(NAMES)[site],
            "admitted": day.strftime("%Y-%m-%d"),
            "age": age.round(),
            "crp": np.where(other_unit & (site == 1), crp / 10, crp).round(2),
            "pressure": pressure.round(),
            "sepsis": np.where(sepsis, "suspected", "none"),
            "note": [f"seen on ward {rng.integers(1, 9)}, bed {rng.integers(1, 99)}" for _ in site],
            "died": np.where(event, words[1], words[0]),
        }
    )
    for column, share in {"crp": 0.15, "pressure": 0.08, "sepsis": 0.05}.items():
        frame.loc[rng.random(n) < share, column] = np.nan
    return frame
