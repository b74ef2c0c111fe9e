"""The page of one model: the first sentence, the card, and the sections in order."""

import json
from dataclasses import replace

import numpy as np
import pytest
from _internals import (
    ColumnByDomain,
    ConfidentError,
    DataError,
    Evidence,
    Expected,
    Outputs,
    beside_constant,
    column_strips,
    cut_table,
    far_plot,
    lead_lead as lead,
    page_values,
    pooled_map,
    read_evidence,
    render_Source as Source,
    report_card,
    results_page,
    share_estimate,
    share_map,
    shortfall_plot,
    two_classes,
    worst_facts,
    write_json,
)
from sklearn.metrics import confusion_matrix, recall_score

WARDS = {"a": 1.5, "b": 1.0, "c": 2.0, "d": 1.2}
PIXEL = "data:image/png;base64,AAAA"


def answers(right, wrong, label, classes=2):
    """Outputs of one class only: so many right, so many wrong."""
    labels = np.full(right + wrong, label)
    predicted = np.array([label] * right + [(label + 1) % classes] * wrong)
    return Outputs(0.2 / (classes - 1) + 0.6 * np.eye(classes)[predicted], labels, labels)


def joined(*parts):
    p, y = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    return Outputs(p, y, np.arange(len(y)))


@pytest.fixture
def mixed():
    """In `west`, nine of ten are ill, and the model is right in seven of ten."""
    outputs = {
        "east": joined(answers(40, 10, 0), answers(40, 10, 1)),
        "west": joined(answers(9, 1, 0), answers(61, 29, 1)),
        "north": joined(answers(42, 8, 0), answers(38, 12, 1)),
    }
    return Expected(outputs, classes=("well", "ill"))


EVIDENCE = Evidence(
    "hospital", "state", 300, 2, 12.0, {"east": 0.5, "west": 0.01, "north": None},
    [ConfidentError("west", 3, "ill", "well", 0.97, [("age", "63"), ("cp", "missing")])],
    [
        ColumnByDomain(
            "age",
            {"west": None, "north": [2.0, 3.0, 4.0, 5.0, 6.0], "east": [1.0, 2.0, 3.0, 4.0, 5.0]},
            {"west": 1.0, "north": 0.2, "east": 0.0},
        )
    ],
)  # fmt: skip


def test_the_first_sentence_says_what_to_expect_and_where_a_constant_is_better(mixed):
    score = mixed.score("accuracy")
    low, high = (100 * end for end in score.interval)
    assert lead(mixed, "hospital", "state") == (
        f"At a hospital like these expect {100 * score.mean:.0f}% accuracy ({low:.0f}–{high:.0f});"
        " worse than always answering 'ill' in 1 of 3 hospitals."
    )


def test_a_constant_is_the_commonest_class_of_that_domain(mixed):
    found = {each.domain: each for each in beside_constant(mixed)}
    assert (found["west"].model, found["west"].constant) == (0.7, 0.9)
    assert found["west"].name == "ill"
    assert found["east"].constant == 0.5


def test_the_first_sentence_in_other_cases(mixed):
    numbers = replace(mixed, classes=("0", "1"))
    assert "always answering state = 1 in 1 of 3 years" in lead(numbers, "year", "state")
    assert lead(numbers, "year").startswith("In a year like these")
    good = replace(mixed, outputs={k: v for k, v in mixed.outputs.items() if k != "west"})
    assert lead(good, "area").startswith("At an area like these")
    assert lead(good).endswith("nowhere worse than always answering one class.")
    by_area = lead(replace(mixed, metric="auroc"))
    assert "expect AUROC 0." in by_area
    assert "its accuracy is worse than always answering 'ill' in 1 of 3 " in by_area
    alone = replace(mixed, outputs={"east": mixed.outputs["east"]})
    assert lead(alone) == "One domain does not show what to expect at the next."


def test_the_card_has_sensitivity_specificity_and_baselines_beside_it(mixed):
    table = report_card(mixed, {"Random forest": mixed}, "hospital", "state")
    titles = [column.title for column in table.columns]
    west = dict(zip(titles, table.rows[1].cells, strict=True))
    own = mixed.outputs["west"]
    predicted = own.probabilities.argmax(axis=1)
    for title, label in (("Sensitivity", 1), ("Specificity", 0)):
        recall = recall_score(own.labels, predicted, pos_label=label)
        assert west[title].text == f"{100 * recall:.1f}"
    share = share_estimate(predicted[own.labels == 1] == 1)
    assert west["Sensitivity"].interval == f"{100 * share.low:.1f}–{100 * share.high:.1f}"
    assert west["Accuracy"].text == west["Random forest"].text == "70.0"
    assert west["Commonest class"].text == "90.0"
    labels = [row.label for row in table.rows]
    assert labels[-3:] == ["typical hospital", "worst hospital", "next hospital, 95%"]
    typical = dict(zip(titles, table.rows[-3].cells, strict=True))
    assert typical["Accuracy"].text == typical["Random forest"].text  # the same model, by one rule
    worst = dict(zip(titles, table.rows[-2].cells, strict=True))
    assert worst["Accuracy"].text == "70.0"
    assert table.foot == 3
    ahead = dict(zip(titles, table.rows[-1].cells, strict=True))
    low, high = mixed.score("accuracy").interval
    assert ahead["Accuracy"].text == f"{100 * low:.1f}–{100 * high:.1f}"


def test_several_classes_have_no_sensitivity(made):
    table = report_card(made.held_out(WARDS, 3).expected, {})
    assert "Sensitivity" not in [column.title for column in table.columns]


def test_a_share_has_the_estimate_of_an_accuracy():
    right = np.array([True] * 7 + [False] * 3)
    found = share_estimate(right)
    assert found.low < 0.7 < found.high
    assert found.value == 0.7
    assert found.additive == pytest.approx(np.log(7.5 / 3.5))
    assert found.variance == pytest.approx(11 / (7.5 * 3.5))


def test_the_worst_domain_and_those_behind_a_constant(mixed):
    worst = worst_facts(mixed, EVIDENCE)
    assert [fact.name for fact in worst] == ["west"]
    text = " ".join(worst[0].lines)
    assert "The lowest accuracy of all hospitals: 70.0%" in text
    assert "Always answering 'ill' would be better: accuracy 90.0%." in text
    assert "90% of its rows are 'ill'; in the other hospitals 50%." in text
    assert "unlike" not in text


def test_confusions_are_those_of_scikit_learn(mixed, made):
    table = two_classes(mixed, "hospital", "state")
    own = mixed.outputs["west"]
    counts = confusion_matrix(own.labels, own.probabilities.argmax(axis=1))
    found = [int(cell.text) for cell in table.rows[1].cells]
    assert found == [counts[0, 0], counts[0, 1], counts[1, 1], counts[1, 0]]
    three = made.held_out(WARDS, 3).expected
    p, y = (np.concatenate([o[at] for o in three.outputs.values()]) for at in (0, 1))
    shares = confusion_matrix(y, p.argmax(axis=1), normalize="true")
    cells = [[int(cell.text) for cell in row] for _, row in pooled_map(three, "ward").rows]
    assert cells == np.rint(100 * shares).astype(int).tolist()


def test_thresholds(mixed):
    plot = shortfall_plot(mixed, "hospital")
    score = mixed.score("accuracy")
    for row, (bar,) in zip(plot.table.rows, plot.marks, strict=True):
        threshold = float(row.label.removeprefix("below ").removesuffix("%")) / 100
        assert row.cells[0].text == f"{100 * score.probability_worse(threshold):.0f}"
        assert bar.end == pytest.approx(100 * score.probability_worse(threshold), abs=0.06)
    cuts = cut_table(mixed, "hospital", "state")
    half = next(row for row in cuts.rows if row.label == "0.5")
    recalls = {
        label: [
            (own.probabilities.argmax(axis=1)[own.labels == label] == label).mean()
            for own in mixed.outputs.values()
        ]
        for label in (0, 1)
    }
    expected = [np.mean(recalls[1]), min(recalls[1]), np.mean(recalls[0]), min(recalls[0])]
    assert [cell.text for cell in half.cells[1:]] == [f"{100 * each:.0f}" for each in expected]


def test_far_inputs_and_class_shares(mixed):
    plot = far_plot(mixed, EVIDENCE)
    assert [row.label for row in plot.table.rows] == ["east", "west"]  # of `north` it cannot say
    assert plot.table.rows[0].cells[0].text == "50.0"
    shares = share_map(mixed, EVIDENCE)
    assert [cell.text for cell in shares.rows[1][1]] == ["50", "90", "50"]
    assert [cell.level for cell in shares.rows[1][1]] == [-4, 4, -4]


def test_the_sections_are_in_the_order_of_a_readers_questions(made):
    outcomes = made.grid({"erm": [0.5, 0.6, 0.7]}, standalone=True)
    known = made.held_out(WARDS)
    column = ColumnByDomain("age", dict.fromkeys(WARDS, (1, 2, 3, 4, 5)), dict.fromkeys(WARDS, 0))
    evidence = replace(EVIDENCE, far=dict.fromkeys(WARDS, 0.1), shifted=[column])
    source = Source(held_out=[known], evidence=evidence)
    page = page_values(outcomes, made.chosen(outcomes), "erm", source)
    assert page.title == "wards: what to expect at the next hospital"
    assert page.sentence.startswith("At a hospital like these expect")
    assert [section.name for section in page.sections] == [
        *("expect", "card", "worst", "reliability", "confusion", "errors", "shift", "far"),
        *("thresholds", "curves", "provenance"),
    ]
    text = results_page(outcomes, made.chosen(outcomes), "erm", source)
    for jargon in ("in part", "test-in", "last-step", "held_out", "`"):
        assert jargon not in text.partition("<body>")[2].partition("<script>")[0]


def test_several_algorithms_are_compared(made):
    outcomes = made.grid({"erm": [0.5, 0.6], "idm": [0.6, 0.7]}, standalone=True)
    known = [made.held_out(WARDS), replace(made.held_out(WARDS), title="IDM on wards")]
    page = page_values(outcomes, made.chosen(outcomes), "erm", Source(held_out=known))
    assert "IDM is the more accurate of 2 algorithms" in page.sentence


def test_evidence_is_read_as_written_and_damage_is_named(tmp_path):
    path = tmp_path / "study.json"
    write_json(path, EVIDENCE.to_json())
    again = read_evidence(path)
    assert json.dumps(again.to_json()) == json.dumps(EVIDENCE.to_json())
    assert again.errors[0].cells == (("age", "63"), ("cp", "missing"))
    bad = [{"far": {"a": "much"}}, {"noun": 3}, {"images": {"a": ["https://example.org/x.png"]}}]
    for quantiles in ([1, 2], [5, 4, 3, 2, 1], ["a"] * 5):
        bad += [{"shifted": [{"name": "age", "quantiles": {"a": quantiles}, "missing": {"a": 0}}]}]
    bad += [{"noun": "\ud800"}, {"seconds": float("inf")}]
    stored = json.loads(path.read_text())
    for change in bad:
        path.write_text(json.dumps({**stored, **change}))
        with pytest.raises(DataError, match="is damaged"):
            read_evidence(path)


def test_a_column_is_drawn_by_the_names_of_domains(mixed):
    strips = column_strips(EVIDENCE, list(mixed.outputs))
    rows = {row.label: row for row in strips.strips[0].rows}
    assert list(rows) == ["east", "west", "north"]
    assert rows["east"].tip.startswith("east: median 3")
    assert (rows["west"].places, rows["west"].note) == ((), "no values")
    assert rows["north"].note == "20% missing"
    assert rows["north"].places[2] > rows["east"].places[2]
