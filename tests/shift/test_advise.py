"""Advice for diagnoses made by hand: one for every kind of shift, and what their words say."""

import json
import re

import pytest

from shiftproof.core.space import resolve
from shiftproof.information import Estimate, Shift
from shiftproof.learners.algorithms import ALGORITHMS
from shiftproof.shift.advise import advise
from shiftproof.shift.diagnose import Diagnosis, ModelShift, Prediction
from shiftproof.shift.localize import MovedClass, Pair

SYMBOLS = {
    "covariate": "I(X;D)",
    "label": "I(Y;D)",
    "concept": "I(Y;D|X)",
    "joint": "I(X,Y;D)",
    "within_label": "I(X;D|Y)",
}


def shift(reach=0.004, **there):
    """Return estimates of what is there, and of zero for the rest; ``reach`` is their half width.

    An amount given as (value, p) is tested with that p; else it is found if it is there.
    """
    estimates = {}
    for name, symbol in SYMBOLS.items():
        value, p = there.get(name, 0.0), None
        if isinstance(value, tuple):
            value, p = value
        found = value > 0 or (name == "joint" and bool(there))
        p = (0.005 if found else 0.4) if p is None else p
        interval = (max(value - reach, 0.0), value + reach)
        estimates[name] = Estimate(symbol, value, interval, 0.95, p, "by hand", (), 1000)
    return Shift(**estimates)


def diagnosis(sizes=(500, 500), missed=0.0, model=None, shares=(0.5, 0.5), **there):
    return Diagnosis(
        domains=("north", "south"),
        classes=("ill", "well"),
        counts=tuple((int(n * s), n - int(n * s)) for n, s in zip(sizes, shares, strict=True)),
        left_out=0,
        level=0.95,
        shift=shift(**there),
        missed=missed,
        domain_entropy=0.693,
        prediction=Prediction(0.7, 0.8, 0.5, 0.75, 0.6),
        pairs=(Pair("north", "south", 0.6, 0.7, 0.1, 0.2, 0.05, 0.0),),
        features=(),
        moved_classes=(
            MovedClass("ill", shares, 0.1, 0.2),
            MovedClass("well", tuple(1 - s for s in shares), 0.05, 0.1),
        ),
        model=model,
    )


def of(advice, kind):
    return next(finding for finding in advice.findings if finding.shift == kind)


def test_concept_shift_asks_for_gradient_matching():
    advice = advise(diagnosis(concept=0.2, within_label=0.2))
    assert of(advice, "concept").state == "found"
    assert of(advice, "concept").share == pytest.approx(0.2 / 0.6)
    assert "takes 33% off" in of(advice, "concept").text
    assert "70% of the labels right, and 80% if" in of(advice, "concept").text
    assert advice.choice.algorithm == "idm"
    assert advice.choice.hparams == {"gradient_weight": "auto", "representation_weight": "0"}
    assert advice.beside.algorithm == "erm"
    assert any("selection method invariance" in remark for remark in advice.remarks)


@pytest.mark.parametrize(
    ("label", "within"), [(0.0, "all"), (0.05, "class"), ((0.03, 0.2), "class")]
)
def test_with_covariate_shift_too_representations_are_matched_as_labels_allow(label, within):
    advice = advise(
        diagnosis(concept=0.2, covariate=0.3, within_label=0.2, label=label, reach=0.02)
    )
    assert advice.choice.hparams == {
        "gradient_weight": "auto",
        "representation_weight": "auto",
        "match_within": within,
    }


def test_covariate_shift_alone_leaves_erm_the_first_choice():
    advice = advise(diagnosis(covariate=0.4, within_label=0.4))
    assert of(advice, "covariate").share == pytest.approx(0.4 / 0.693)
    assert "strongly" in of(advice, "covariate").text
    assert "75% of the samples, guessing would for 50%" in of(advice, "covariate").text
    assert of(advice, "concept").state == "none"
    assert advice.choice.algorithm == "erm"
    assert "Rotated MNIST" in advice.choice.why
    assert advice.beside.hparams == {
        "gradient_weight": "0",
        "representation_weight": "auto",
        "match_within": "all",
    }
    assert not any("invariance" in remark for remark in advice.remarks)


def test_covariate_and_label_shift_match_class_by_class_if_at_all():
    advice = advise(diagnosis(covariate=0.4, label=0.1, within_label=0.3, shares=(0.3, 0.8)))
    assert "'ill' is 30% of north and 80% of south" in of(advice, "label").text
    assert advice.choice.algorithm == "erm"
    assert "Office-Caltech10" in advice.choice.why
    assert advice.beside.hparams["match_within"] == "class"
    assert "pull classes onto each other" in advice.beside.why


@pytest.mark.parametrize("follows", [{}, {"covariate": 0.08}, {"covariate": 0.05, "concept": 0.03}])
def test_label_shift_alone_has_nothing_to_match(follows):
    advice = advise(diagnosis(label=0.1, shares=(0.3, 0.8), **follows))
    assert advice.choice.algorithm == "erm"
    assert advice.choice.hparams == {}
    assert "only the proportions of the classes differ" in advice.choice.why
    assert ("follows from it" in advice.choice.why) == bool(follows)
    assert advice.beside is None
    assert advice.remarks == ()


def test_no_shift_among_many_samples():
    advice = advise(diagnosis())
    assert {finding.state for finding in advice.findings} == {"none"}
    assert advice.choice.algorithm == "erm"
    assert "domains look alike" in advice.choice.why
    assert "would have shown" in of(advice, "concept").text


def test_few_samples_cannot_tell():
    advice = advise(diagnosis(sizes=(40, 900), reach=0.1))
    assert {finding.state for finding in advice.findings} == {"untold"}
    assert "may be unseen" in of(advice, "concept").text
    assert advice.choice.algorithm == "erm"
    assert "cannot tell" in advice.choice.why
    assert any(remark.startswith("Few samples: north (40).") for remark in advice.remarks)


def test_one_false_alarm_among_the_parts_is_none_if_nothing_shifts_in_all():
    advice = advise(diagnosis(concept=(0.003, 0.02), joint=(0.004, 0.3)))
    assert of(advice, "concept").state == "none"
    assert advice.choice.algorithm == "erm"


def test_concept_shift_with_zero_in_its_interval_is_a_hint():
    advice = advise(diagnosis(covariate=0.4, concept=0.003, within_label=0.4, label=0.1))
    assert of(advice, "concept").state == "hint"
    assert "a hint" in of(advice, "concept").text
    assert advice.choice.algorithm == "erm"
    assert advice.beside.hparams["gradient_weight"] == "auto"
    assert advice.beside.hparams["match_within"] == "class"


def test_concept_shift_no_larger_than_what_was_missed_is_unclear():
    there = {"covariate": 0.4, "concept": 0.1, "within_label": 0.4}
    assert of(advise(diagnosis(**there, missed=0.05)), "concept").state == "found"
    advice = advise(diagnosis(**there, missed=0.2))
    assert of(advice, "concept").state == "unclear"
    assert "missed 0.20 nats" in of(advice, "concept").text
    assert advice.choice.algorithm == "erm"
    assert advice.beside.hparams["gradient_weight"] == "0"
    assert any("(`run`)" in remark for remark in advice.remarks)


def test_the_domains_held_out_are_part_of_the_advice():
    assert advise(diagnosis(concept=0.2)).test_domains == ()
    assert advise(diagnosis(concept=0.2), ("west",)).test_domains == ("west",)


@pytest.mark.parametrize("label", [0.0, 0.2])
def test_the_hparams_are_those_of_the_algorithm(label):
    advice = advise(diagnosis(concept=0.2, covariate=0.3, within_label=0.2, label=label))
    assert advice.choice.algorithm == "idm"
    assert resolve(ALGORITHMS.get("idm").Hparams, "table", advice.choice.hparams)


def test_what_a_model_makes_of_it():
    model = ModelShift(
        "erm in runs/1",
        shift(covariate=0.1, concept=0.1),
        0.0,
        Estimate("I(L;D)", 0.02, (0.01, 0.03), 0.95, 0.005, "by hand", (), 1000),
        (0.2, 0.5),
        (0.9, 0.7),
    )
    *_, text = advise(diagnosis(covariate=0.4, concept=0.2, within_label=0.4, model=model)).remarks
    assert "representation is 0.10 nats, where the inputs have 0.40" in text
    assert "I(Y;D|R) = 0.10 (of the inputs: 0.20)" in text
    assert "from 0.20 (north) to 0.50 (south); I(L;D) = 0.02, more than chance" in text


def test_nothing_is_promised_and_json_holds_it_all():
    for there in ({}, {"covariate": 0.3, "within_label": 0.3}, {"concept": 0.2}, {"label": 0.1}):
        advice = advise(diagnosis(**there))
        text = json.dumps(advice.to_json(), allow_nan=False)
        assert not re.search(
            r"\b(guarantee|ensure|always|never fails|will (be|reach|improve))", text
        )
        assert json.loads(text)["choice"]["algorithm"] in ("erm", "idm")
        assert {finding["shift"] for finding in json.loads(text)["findings"]} == {
            "covariate", "label", "concept", "within_label",
        }  # fmt: skip
