import json
from pathlib import Path

import pytest
from _internals import split_domain

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/domainbed_protocol.json").read_text())[
    "splits"
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"n={case['n']}")
def test_splits_equal_the_recorded_ones(case):
    split = split_domain(case["n"], 0.2, case["trial_seed"], case["env"])
    assert split.in_.tolist() == case["in"]
    assert split.out.tolist() == case["out"]


@pytest.mark.parametrize("holdout", [0.0, 0.1, 0.2, 0.5])
def test_the_parts_are_disjoint_and_complete(holdout):
    split = split_domain(103, holdout, 0, 1)
    assert sorted([*split.in_, *split.out]) == list(range(103))
    assert len(split.out) == int(103 * holdout)
