"""The terms of the bound, read from records; and recorded by a run of IDM."""

from __future__ import annotations

import pytest

from shiftproof.core.errors import DataError
from shiftproof.testing.harness import problem
from shiftproof.training.bound_terms import BoundTerms, bound_terms
from shiftproof.training.configure import configure
from shiftproof.training.loop import train


def record(step: int, gradient: float, risk: dict[str, float]) -> dict:
    return {
        "step": step,
        "gradient_information": gradient,
        "representation_information": 0.5,
        "risk": risk,
    }


def test_sums_and_gaps_by_hand():
    risk = {"a/out": 1.0, "b/out": 2.0, "c/in": 4.5, "gray": 9.0}
    records = [record(1, 3.0, risk), record(5, 0.5, risk)]
    assert bound_terms(records, ["c"]) == [
        BoundTerms(1, 3.0, 3.0, 0.5, 3.0),
        BoundTerms(5, 0.5, 5.0, 0.5, 3.0),
    ]


def test_what_is_missing_is_named():
    with pytest.raises(DataError, match="`track_information=True`"):
        bound_terms([{"step": 1, "risk": {}}], ["c"])
    with pytest.raises(DataError, match=r"train-out.*test-in"):
        bound_terms([record(1, 0.0, {"a/out": 1.0})], ["c"])


def test_a_run_of_idm_records_them(tmp_path):
    data = problem()
    config = configure(
        data,
        "idm",
        test_domains=["domain 2"],
        hparams={"track_information": True, "hidden": 8, "batch_size": 4},
        steps=5,
        eval_every=2,
        evaluate=("train-out", "test-in"),
        device="cpu",
    )
    records = train(config, data, tmp_path / "run").records
    terms = bound_terms(records, config.test_domains)
    assert [term.step for term in terms] == [1, 3, 5]
    assert all(term.gradient > 0 and term.representation > 0 for term in terms)
    assert terms[-1].accumulated == pytest.approx(
        terms[0].gradient + 2 * terms[1].gradient + 2 * terms[2].gradient
    )
