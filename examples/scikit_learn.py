"""scikit-learn: cross-validation over hospitals, with the domain of each sample as metadata.

python examples/scikit_learn.py
"""

import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

from shiftproof import ShiftproofClassifier

rng = np.random.default_rng(0)


def patients(hospital: str, reliability: float, count: int = 400) -> pd.DataFrame:
    """The blood is right for 75% of the patients, the scanner as `reliability` says."""
    ill = rng.integers(2, size=count)
    blood, scanner = (
        2.0 * np.where(rng.random(count) < share, ill, 1 - ill) - 1 + rng.normal(0, 0.3, count)
        for share in (0.75, reliability)
    )
    return pd.DataFrame({"blood": blood, "scanner": scanner, "ill": ill, "hospital": hospital})


scanners = {"A": 0.95, "B": 0.8, "C": 0.6, "D": 0.05}
table = pd.concat([patients(name, reliability) for name, reliability in scanners.items()])
X, y, hospital = table[["blood", "scanner"]], table["ill"], table["hospital"]

# Metadata routing passes the domains to `fit`; `predict` needs none.
sklearn.set_config(enable_metadata_routing=True)
for algorithm in ("erm", "idm"):
    model = ShiftproofClassifier(
        algorithm, steps=150, hparams={"hidden": 16, "lr": 0.01}, random_state=0
    ).set_fit_request(sample_domain=True)
    scores = cross_val_score(
        model, X, y, cv=LeaveOneGroupOut(), params={"sample_domain": hospital, "groups": hospital}
    )
    accuracy = {name: f"{score:.0%}" for name, score in zip(scanners, scores, strict=True)}
    print(f"{algorithm}, each hospital held out in turn: {accuracy}")
sklearn.set_config(enable_metadata_routing=False)
assert scores[-1] > 0.6  # of idm in D, where the scanner is wrong
