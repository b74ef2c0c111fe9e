"""Data of known truth, and settings that make a fit quick."""

import numpy as np
import pytest

QUICK = {"hidden": 16, "batch_size": 16, "lr": 0.05}


@pytest.fixture
def quick():
    return {"steps": 20, "hparams": dict(QUICK), "random_state": 0, "device": "cpu"}


def hospitals(per_domain=600, seed=0):
    """Four hospitals and three columns: what tells the label everywhere, what reverses, and noise.

    The first column points to the label for three samples in four, wherever they are from.  The
    second does so for 95%, 80% and 60% of those of A, B and C, and for 5% of those of D.
    """
    rng = np.random.default_rng(seed)
    x, y, domain = [], [], []
    for name, trust in zip("ABCD", (0.95, 0.8, 0.6, 0.05), strict=True):
        label = rng.integers(2, size=per_domain)
        columns = [
            2 * np.where(rng.random(per_domain) < share, label, 1 - label) - 1
            for share in (0.75, trust)
        ]
        columns.append(np.zeros(per_domain))
        x.append(np.stack(columns, axis=1) + 0.3 * rng.normal(size=(per_domain, 3)))
        y.append(label)
        domain += [name] * per_domain
    return np.concatenate(x), np.concatenate(y), np.array(domain)


@pytest.fixture(scope="session")
def shifted():
    return hospitals()


@pytest.fixture(scope="session")
def easy():
    """Two classes far apart in two domains; labels are positions, to be named as a test likes."""
    rng = np.random.default_rng(0)
    label = np.arange(120) % 2
    x = rng.normal(size=(120, 3)) + 4 * label[:, None]
    return x, label, np.repeat(["north", "south"], 60)
