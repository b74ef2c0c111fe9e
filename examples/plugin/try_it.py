"""Use the algorithm of this package by its name, like any other.

    pip install ./examples/plugin
    python examples/plugin/try_it.py

The commands know it too: `shiftproof algorithms mean-match`, `shiftproof train … --algorithm
mean-match`, `shiftproof sweep … --algorithms erm,mean-match`.
"""

import numpy as np

import shiftproof

# Three places.  The second feature differs between them, and does not predict the label.
rng = np.random.default_rng(0)
y = rng.integers(2, size=600)
place = np.repeat(["north", "east", "south"], 200)
level = np.repeat([0.0, 2.0, 6.0], 200)
x = np.stack([y + rng.normal(0, 0.5, 600), level + rng.normal(0, 0.5, 600)], axis=1)

for algorithm in ("erm", "mean-match"):
    run = shiftproof.train(
        (x, y, place),
        algorithm,
        test_domains="south",
        steps=200,
        hparams={"lr": 0.01, "batch_size": 32},
        out=f"runs/plugin/{algorithm}",
    )
    print(f"{algorithm}: accuracy in the south {run.metrics['accuracy']['south/in']:.0%}")
