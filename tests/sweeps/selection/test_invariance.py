"""Selection by invariance, on steps whose order can be told by eye."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from _internals import SELECTORS, Evaluation, OutputShift, Run, aggregate, evaluations_of

DOMAINS = ("a", "b", "c")
LOG2 = math.log(2)


def step(number, risks, p_value, accuracy=0.5, concept=0.0, covariate=0.0, entropy=0.69):
    """Return an evaluation of a run that holds out c, with the risks on a and b."""
    return Evaluation(
        number,
        (None, None, accuracy),
        (0.5, 0.5, None),
        (*risks, None),
        OutputShift(2, (entropy, entropy, None), concept, covariate, p_value),
    )


def run(*steps, seed=0):
    return Run("x", "erm", DOMAINS, (2,), seed, 0, "finished", steps)


def select(*runs):
    return SELECTORS.get("invariance")().select(runs, 2)


def test_the_lowest_worst_risk_among_steps_without_a_shift():
    chosen = select(
        run(
            step(1, (0.6, 0.1), 0.5),
            step(2, (0.5, 0.4), 0.2, accuracy=0.7),  # just accepted
            step(3, (0.1, 0.1), 0.19),  # shifts
            step(4, (0.3, 0.55), 0.9),
        )
    )
    assert (chosen.step, chosen.score, chosen.accuracy) == (2, -0.5, 0.7)


def test_accepted_steps_come_before_all_others_in_every_draw():
    poor = run(step(1, (0.65, 0.65), 0.5), seed=1)
    good = run(step(1, (0.0, 0.0), 0.01), seed=2)
    assert select(poor, good).run is poor
    assert select(good, replace(poor, hparams_seed=3)).run.hparams_seed == 3


def test_a_model_that_has_learnt_nothing_is_not_accepted():
    blind, shifting = step(1, (LOG2, LOG2), 1.0, entropy=LOG2), step(2, (0.4, 0.4), 0.01)
    assert select(run(blind, shifting)).step == 2
    # In one domain it has not: the label shares there are worth more.
    lopsided = step(1, (0.3, 0.3), 1.0)
    lopsided = lopsided._replace(shift=lopsided.shift._replace(label_entropy=(0.69, 0.3, None)))
    assert select(run(lopsided, step(2, (0.6, 0.6), 0.5))).step == 2


def test_a_model_that_has_learnt_next_to_nothing_does_not_beat_a_good_one():
    """55% right is a risk of 0.688, 0.7% of the entropy; 95% and 90% are 0.2 and 0.33."""
    weak, good = step(1, (0.688, 0.688), 0.9, entropy=LOG2), step(2, (0.2, 0.33), 0.01)
    assert select(run(weak, good)).step == 2
    enough = step(1, (0.683, 0.683), 0.9, entropy=LOG2)  # 1.5% of the entropy
    assert select(run(enough, good)).step == 1


def test_without_an_accepted_step_the_bound_trades_risk_against_shift():
    # log 2 · √(0.02/2) = 0.0693, and log 2 · √(0.18/2) = 0.2079.
    little, much = (
        step(1, (0.5, 0.2), 0.01, concept=0.01, covariate=0.01),
        step(2, (0.4, 0.4), 0.01, concept=0.16, covariate=0.02),
    )
    chosen = select(run(little, much))
    assert chosen.step == 1
    assert chosen.score == pytest.approx(-(LOG2 + 0.5 + LOG2 * 0.1), abs=1e-12)
    assert select(run(little._replace(risk=(0.55, 0.2, None)), much)).step == 2


@pytest.mark.parametrize("p_value", [0.5, 0.01])
def test_ties_go_to_the_earliest_step_and_the_highest_seed(p_value):
    equal = [step(number, (0.5, 0.5), p_value) for number in (5, 1, 9)]
    chosen = select(run(*equal, seed=1), run(*equal, seed=4), run(*equal, seed=2))
    assert (chosen.step, chosen.run.hparams_seed) == (1, 4)


def test_a_run_without_a_score_says_why():
    def reasons(evaluation):
        (cell,) = (
            found
            for (_, position), found in aggregate([run(evaluation)], SELECTORS.get("invariance")())
            .datasets[0]
            .cells.items()
            if position == 2
        )
        assert not cell.selections
        return [run.reason for run in cell.missing]

    assert reasons(Evaluation(1, (None, None, 0.5), (0.5, 0.5, None))) == ["not evaluated"]
    good = step(1, (0.5, 0.5), 0.5)
    for missing in ({"shift": None}, {"risk": None}, {"risk": (0.5, None, None)}):
        assert reasons(good._replace(**missing)) == ["not evaluated"]
    untested = good._replace(shift=None, untested="a single class")
    assert reasons(untested) == ["no test of invariance (a single class)"]


def test_what_it_reads_is_in_the_records():
    shift = {
        "classes": 3,
        "label_entropy": {"a/out": 1.0, "b/out": 0.5},
        "concept": {"value": 0.25, "low": 0.0, "high": 0.5, "p_value": 0.125},
        "covariate": {"value": 0.75, "low": 0.0, "high": 1.0, "p_value": 0.5},
    }
    record = {
        "step": 7,
        "accuracy": {"a/out": 0.1, "b/out": 0.2, "c/in": 0.3},
        "risk": {"a/out": 0.4, "b/out": 0.6, "c/in": 0.8},
        "shift": shift,
    }
    (evaluation,) = evaluations_of([record], DOMAINS)
    assert evaluation == Evaluation(
        7,
        (None, None, 0.3),
        (0.1, 0.2, None),
        (0.4, 0.6, None),
        OutputShift(3, (1.0, 0.5, None), 0.25, 0.75, 0.125),
    )
    refused = {"classes": 3, "label_entropy": {"a/out": 0.0}, "untested": "a single class"}
    (evaluation,) = evaluations_of([record | {"shift": refused}], DOMAINS)
    assert (evaluation.shift, evaluation.untested) == (None, "a single class")


@pytest.mark.slow
def test_a_sweep_from_plan_to_models(shiftproof, table, tmp_path):
    asked = ["sweep", table, "--domain", "place", "--algorithms", "erm", "--preset", "lite"]
    asked += ["--steps", 12, "--n-hparams", 1, "--trials", 1, "--selection", "invariance"]
    asked += ["--device", "cpu", "--workers", 1, "--out", tmp_path / "sweep"]
    code, _, err = shiftproof(*asked, "--dry-run")
    assert (code, "3 runs (by selection method: invariance 3)" in err) == (0, True)
    code, _, err = shiftproof(*asked, "--quiet", "--models", tmp_path / "models")
    assert code == 0, err
    models = json.loads((tmp_path / "models" / "models.json").read_text())["models"]
    assert [model["selection"] for model in models] == ["invariance"] * 3
    code, out, _ = shiftproof("report", tmp_path / "sweep")
    assert code == 0
    # What the runs allow: they have train-out as well, and no test-out.
    titles = [SELECTORS.get(name).title for name in ("training-domain", "invariance", "oracle")]
    assert [title in out for title in titles] == [True, True, False]
    code, out, _ = shiftproof("report", tmp_path / "sweep", "--selection", "invariance")
    assert "not evaluated" not in out
