"""What the tests of sweeps share."""

import numpy as np
import pytest


@pytest.fixture
def table(tmp_path):
    """A small table of three places, whose column a tells the label."""
    rng = np.random.default_rng(0)
    rows = ["place,a,b,label"]
    for place in ("north", "south", "west"):
        for _ in range(40):
            y = int(rng.random() < 0.5)
            rows.append(f"{place},{y + rng.normal():.3f},{rng.normal():.3f},{y}")
    path = tmp_path / "toy.csv"
    path.write_text("\n".join(rows) + "\n")
    return path
