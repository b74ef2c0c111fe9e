"""Advice for diagnoses made by hand: one for every kind of shift, and what their words say."""

import json
import re
from dataclasses import replace

import pytest
from _internals import (
    PARTS,
    ColumnTrial,
    Diagnosis,
    Drop,
    Loss,
    ModelShift,
    MovedClass,
    Pair,
    Points,
    Prediction,
    advise,
    advise_About as About,
    summary,
)

from shiftproof.information import Estimate, Shift

SYMBOLS = {
    "covariate": "I(X;D)",
    "label": "I(Y;D)",
    "concept": "I(Y;D|X)",
    "joint": "I(X,Y;D)",
    "within_label": "I(X;D|Y)",
}


def shift(reach=0.004, **there):
    """Return estimates of what is there, and of zero for the rest; `reach` is half a width."""
    estimates = {}
    for name, symbol in SYMBOLS.items():
        value = there.get(name, 0.0)
        interval = (max(value - reach, 0.0), value + reach)
        estimates[name] = Estimate(symbol, value, interval, 0.95, None, "by hand", (), 1000)
    return Shift(**estimates)


def diagnosis(sizes=(500, 500), model=None, shares=(0.5, 0.5), drops=(), trials=(), **there):
    return Diagnosis(
        domains=("north", "south"),
        classes=("ill", "well"),
        counts=tuple((int(n * s), n - int(n * s)) for n, s in zip(sizes, shares, strict=True)),
        left_out=0,
        level=0.95,
        shift=shift(**there),
        domain_entropy=0.693,
        prediction=Prediction(0.7, 0.8, 0.5, 0.75, 0.6),
        pairs=(Pair("north", "south", 0.6, 0.7, 0.1, 0.2, 0.05, 0.0),),
        features=(),
        moved_classes=(
            MovedClass("ill", shares, 0.1, 0.2),
            MovedClass("well", tuple(1 - s for s in shares), 0.05, 0.1),
        ),
        drops=drops,
        trials=trials,
        model=model,
    )


def points(value, reach=1.0):
    return Points(value, (value - reach, value + reach))


def drop(domain="north", unseen_share=0.0, **parts):
    parts = {name: points(parts.get(name, 0.0)) for name in PARTS}
    lost = points(sum(part.value for part in parts.values()))
    loss = Loss(70.0, 70.0 + lost.value, lost, **parts)
    return Drop(domain, 500, loss, None, unseen_share, ("ill", 3.0))


def of(advice, kind):
    return next(finding for finding in advice.findings if finding.shift == kind)


def test_concept_shift_asks_for_a_comparison_with_gradient_matching():
    advice = advise(diagnosis(concept=0.2, within_label=0.2))
    assert advice.kinds == ("concept",)
    assert of(advice, "concept").share == pytest.approx(0.2 / 0.6)
    assert "reduces the uncertainty about the label by 33%" in of(advice, "concept").text
    assert (
        "70% of the labels correctly, and 80% if they know the domain" in of(advice, "concept").text
    )
    assert advice.choice.algorithm == "best"
    assert (advice.beside.algorithm, advice.beside.hparams) == ("idm-auto", {})
    assert "the domain explains 33% of the label's entropy given the inputs" in advice.beside.why
    assert any("`leave-one-domain-out`" in remark for remark in advice.remarks)


@pytest.mark.parametrize("there", [{}, {"covariate": 0.4, "within_label": 0.4}, {"label": 0.1}])
def test_without_concept_shift_there_is_nothing_to_match(there):
    advice = advise(diagnosis(**there))
    assert advice.choice.algorithm == "best"
    assert advice.beside is None
    assert not any("invariance" in remark for remark in advice.remarks)


def test_the_words_of_covariate_and_label_shift():
    advice = advise(diagnosis(covariate=0.4, label=0.1, within_label=0.3, shares=(0.3, 0.8)))
    assert advice.kinds == ("covariate", "label")
    assert "The inputs differ strongly between domains." in of(advice, "covariate").text
    assert "75% of the samples (chance: 50%)" in of(advice, "covariate").text
    assert "'ill' ranges from 30% (north) to 80% (south)" in of(advice, "label").text
    assert summary(of(advice, "covariate")) == "found: inputs explain 58% of the domain's entropy"


@pytest.mark.parametrize("follows", [{}, {"covariate": 0.08}, {"covariate": 0.05, "concept": 0.03}])
def test_all_that_follows_from_label_shift_is_label_shift(follows):
    advice = advise(diagnosis(label=0.1, shares=(0.3, 0.8), **follows))
    assert advice.kinds == ("label",)
    assert advice.beside is None
    assert any("multiply the probability of each class" in remark for remark in advice.remarks)


@pytest.mark.parametrize(
    ("value", "reach", "state"),
    [
        (0.02, 0.01, "found"),
        (0.0065, 0.001, "found"),  # just more than 1% of 0.6
        (0.0055, 0.001, "small"),  # surely there, but less than 1% of 0.6
        (0.02, 0.03, "untold"),
        (0.01, 0.012, "none"),
    ],
)
def test_one_rule_for_all(value, reach, state):
    advice = advise(diagnosis(concept=value, within_label=0.2, reach=reach))
    found = of(advice, "concept")
    assert found.state == state
    assert (advice.beside is not None) == (state == "found")
    low = max(value - reach, 0)
    assert ("No evidence" in found.text or "detected" in found.text) <= (low == 0)


@pytest.mark.parametrize(("covariate", "state"), [(0.65, "overlap"), (0.6, "none")])
def test_where_domains_hardly_overlap_concept_shift_is_inconclusive(covariate, state):
    advice = advise(diagnosis(covariate=covariate, within_label=covariate))
    assert of(advice, "concept").state == state
    assert ("hardly overlap" in summary(of(advice, "concept"))) == (state == "overlap")
    assert ("would have been detected" in of(advice, "concept").text) == (state == "none")


def test_no_shift_among_many_samples():
    advice = advise(diagnosis())
    assert {finding.state for finding in advice.findings} == {"none"}
    assert "No shift was found that is large enough" in advice.choice.why
    assert "would have been detected" in of(advice, "concept").text


def test_few_samples_cannot_tell():
    advice = advise(diagnosis(sizes=(40, 900), reach=0.1))
    assert {finding.state for finding in advice.findings} == {"untold"}
    assert "may be undetected" in of(advice, "concept").text
    few = next(remark for remark in advice.remarks if remark.startswith("Few samples"))
    assert "north (40)" in few
    assert "up to 7.9 points" in few  # half a point over √40


@pytest.mark.parametrize(
    ("kind", "algorithm"), [("table", "best"), ("embeddings", "best"), ("images", "idm-auto")]
)
def test_the_model_to_begin_with_is_the_default_of_its_kind(kind, algorithm):
    advice = advise(diagnosis(), (), About(kind))
    assert advice.choice.algorithm == algorithm
    assert any("swad" in remark for remark in advice.remarks) == (kind == "images")


def test_a_column_is_named_only_if_held_out_domains_gain():
    trials = (
        ColumnTrial("zip", "drop", points(3.0)),
        ColumnTrial("age", "drop", points(0.5)),
        ColumnTrial("chol", "rank", points(2.0)),
    )
    remarks = " ".join(advise(diagnosis(trials=trials)).remarks)
    assert "Leave out 'zip' (`drop`): held-out domains gain 3.0 (2.0 to 4.0) points" in remarks
    assert "Replace 'chol' by its rank within each domain" in remarks
    assert "'age'" not in remarks


def test_what_a_correction_and_unseen_inputs_are_worth():
    drops = (drop("north", label_shares=0.5), drop("south", 0.6, label_shares=4.0, unseen=9.0))
    remarks = " ".join(advise(diagnosis(label=0.1, drops=drops)).remarks)
    assert "If south is held out, this gains 4.0 (3.0 to 5.0) points" in remarks
    assert "south: 60% of its inputs hardly occur in other domains" in remarks
    assert "costs 9.0 (8.0 to 10.0) points" in remarks


def test_classes_of_one_domain_codes_and_uneven_columns_are_named():
    made = replace(diagnosis(), counts=((100, 0), (100, 50)))
    remarks = " ".join(advise(made, (), About("table", ("cp", "zip"), ("ca",))).remarks)
    assert "occur in only one domain: 'well'" in remarks
    assert "may be category codes: 'cp', 'zip'" in remarks
    assert "in others: 'ca'" in remarks


def test_the_domains_held_out_are_part_of_the_advice():
    assert advise(diagnosis(concept=0.2)).test_domains == ()
    assert advise(diagnosis(concept=0.2), ("west",)).test_domains == ("west",)


def test_what_a_model_makes_of_it():
    model = ModelShift(
        "erm in runs/1",
        shift(covariate=0.1, concept=0.1),
        Estimate("I(L;D)", 0.02, (0.01, 0.03), 0.95, 0.005, "by hand", (), 1000),
        (0.2, 0.5),
        (0.9, 0.7),
    )
    *_, text = advise(diagnosis(covariate=0.4, concept=0.2, within_label=0.4, model=model)).remarks
    assert "representation is 0.10 nats (inputs: 0.40)" in text
    assert "I(Y;D|R) = 0.10 nats (inputs: 0.20)" in text
    assert "from 0.20 (north) to 0.50 (south)." in text
    assert "risks differ significantly between domains: I(L;D) = 0.02 nats." in text


def test_nothing_is_promised_and_json_holds_it_all():
    for there in ({}, {"covariate": 0.3, "within_label": 0.3}, {"concept": 0.2}, {"label": 0.1}):
        advice = advise(diagnosis(**there))
        text = json.dumps(advice.to_json(), allow_nan=False)
        assert not re.search(
            r"\b(guarantee|ensure|always|never fails|will (be|reach|improve))", text
        )
        # No number of a dataset of ours.
        assert not re.search("MNIST|Office|PACS", text)
        assert json.loads(text)["choice"]["algorithm"] == "best"
        assert {finding["shift"] for finding in json.loads(text)["findings"]} == {
            "covariate", "label", "concept", "within_label",
        }  # fmt: skip
