"""`expect` from data, from runs in memory and from their folder; the command line and `train`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from _internals import (
    WIDTH,
    DataError,
    Expected,
    InvalidValue,
    Outputs,
    bar,
    compared_Comparison as Comparison,
    predictive,
    score_threshold,
    sentences,
)
from sklearn.metrics import confusion_matrix, roc_auc_score

import shiftproof
from shiftproof.metrics import METRICS

COLUMNS: dict[str, Any] = {"label": "ill", "domain": "ward"}


@pytest.fixture(scope="module")
def six() -> pd.DataFrame:
    """Six wards, of which the last has its marker the other way round."""
    rng = np.random.default_rng(4)
    found = []
    for ward, sign in zip("abcdef", (1, 1, 1, 1, 1, -1), strict=True):
        ill = rng.integers(2, size=120)
        marker = sign * (ill - 0.5) + 0.6 * rng.standard_normal(120)
        found.append(pd.DataFrame({"ward": ward, "marker": marker, "ill": ill}))
    return pd.concat(found)


@pytest.fixture(scope="module")
def each(six: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("each")
    return shiftproof.train_each(six, "linear", out=out, **COLUMNS)


def test_the_same_from_data_from_runs_and_from_their_folder(
    six: pd.DataFrame, each: Any, tmp_path: Path
) -> None:
    folder = each.runs[0].folder.parent
    first, second = shiftproof.expect(each), shiftproof.expect(folder)
    third = shiftproof.expect(six, "linear", out=folder, **COLUMNS)  # reads the finished runs again
    assert first.to_dict() == second.to_dict() == third.to_dict()
    assert each.to_dict()["expected"] == first.to_dict()["expected"]


def test_the_values_are_those_of_the_parts(each: Any) -> None:
    found = shiftproof.expect(each, metric="auroc", at_least=0.7, level=0.9)
    score = found.headline
    own = each.runs[0].outputs["a"]
    assert score.estimates["a"].value == pytest.approx(
        roc_auc_score(own.labels, own.probabilities[:, 1])
    )
    values, variances = (
        np.array([getattr(one, name) for one in score.estimates.values()])
        for name in ("additive", "variance")
    )
    low, high = (1 / (1 + np.exp(-x)) for x in predictive(values, variances).interval(0.9))
    assert score.interval == pytest.approx((low, high))
    frame = found.to_frame()
    assert list(frame.index) == [*"abcdef", "next domain"]
    assert frame.loc["next domain", "low"] == low
    odds = np.log(0.7 / 0.3)
    assert found.probability_worse == pytest.approx(predictive(values, variances).below(odds))
    assert "f" in score.outliers
    assert frame.outlier["f"]


def test_the_card_and_the_json(each: Any) -> None:
    found = shiftproof.expect(each)
    card, stored = found.card(), found.to_dict()
    assert list(card.index) == [*"abcdef", "pooled"]
    assert card.samples["pooled"] == 720
    right = card.accuracy[:6] * card.samples[:6]
    assert card.accuracy["pooled"] == pytest.approx(right.sum() / 720)
    assert set(stored["expected"]) <= set(METRICS.of("classification"))
    assert {"mean", "low", "high", "level", "tau", "domains"} <= set(stored["expected"]["auroc"])
    own = each.runs[2].outputs["c"]
    assert (
        stored["domains"][2]["confusion"]
        == confusion_matrix(own.labels, own.probabilities.argmax(axis=1)).tolist()
    )
    assert json.loads(json.dumps(stored)) == stored
    assert "<table" in found._repr_html_()
    assert "next domain" in found._repr_html_()


def test_a_loss_is_worse_above_its_threshold(each: Any) -> None:
    found = shiftproof.expect(each, metric="log_loss", at_least=0.1)
    assert found.probability_worse is not None
    assert found.probability_worse > 0.9
    assert "is above 0.1" in " ".join(sentences(found))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "auc"}, "`metric` 'auc' is unknown"),
        ({"level": 1.0}, r"`level` must lie in \(0, 1\), not 1.0"),
        ({"at_least": 70}, "`at_least` must be between 0 and 1, not 70"),
        ({"metric": "brier", "at_least": 0}, "`at_least` must be above 0"),
    ],
)
def test_a_wrong_setting_is_said_before_training(settings: Any, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        shiftproof.expect("no-such-file.csv", **settings)


def test_finished_runs_take_no_settings(each: Any) -> None:
    for given in (each, each.runs[0].folder.parent):
        with pytest.raises(InvalidValue, match="take no `algorithm` and no settings"):
            shiftproof.expect(given, "erm")


def test_two_runs_of_one_domain_are_told_apart(each: Any, tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(each.runs[0].folder)
    (tmp_path / "two").symlink_to(each.runs[0].folder)
    with pytest.raises(DataError, match="two runs that held out domain 'a'"):
        shiftproof.expect(tmp_path)


def test_too_few_domains_are_said() -> None:
    rng = np.random.default_rng(0)
    share = rng.random((40, 1))
    both = Outputs(np.hstack([share, 1 - share]), np.arange(40) % 2, np.arange(40))
    one_class = Outputs(both.probabilities, np.zeros(40, dtype=int), np.arange(40))
    few = Expected({"a": both, "b": one_class})
    assert "2 domains hardly show how much domains differ" in " ".join(sentences(few))
    assert few.score("auroc") is None
    with pytest.raises(DataError, match="auroc is defined in fewer than two of 2"):
        Expected({"a": both, "b": one_class}, "auroc").headline  # noqa: B018


def test_the_bar_of_a_point_and_of_the_whole_line() -> None:
    assert bar(0, 0, 0, 0, 1, "├─●─┤").rstrip() == "●"
    assert bar(0, 1, 1, 0, 1, "├─●─┤") == "├" + (WIDTH - 2) * "─" + "●"


def test_the_command_line(
    each: Any, table: Path, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    folder = each.runs[0].folder.parent
    _, text, _ = shiftproof("expect", folder, "--metric", "auroc", "--at-least", "0.7")
    assert "next domain" in text
    assert "probability that the next domain is below 0.7" in " ".join(text.split())
    stored = json.loads(shiftproof("expect", folder, "--json")[1])
    assert set(stored["expected"]["accuracy"]) >= {"mean", "low", "high", "level", "tau"}
    same = ["-a", "linear", "--label", "ill", "--domain", "ward", "--out", tmp_path / "runs"]
    _, trained, _ = shiftproof("train", table, "--test-domain", "each", "--quiet", *same)
    assert "to expect at the next domain" in trained
    _, again, _ = shiftproof("expect", table, "--quiet", *same)  # reads the finished runs again
    assert "3 domains hardly show" in again
    code, _, error = shiftproof("expect", folder, "--at-least", "70")
    assert (code, error) == (2, "error: --at-least must be between 0 and 1, not 70\n")


def test_a_new_site_beside_what_was_expected(
    six: pd.DataFrame, each: Any, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    """A site like the others is inside, and one with random labels far below."""
    folder, run = each.runs[5].folder.parent, each.runs[5].folder
    kept = tmp_path / "alike"  # the ward that is unlike the others is left out
    kept.mkdir()
    for own in each.runs[:5]:
        (kept / own.folder.name).symlink_to(own.folder)
    site = six[six.ward == "a"].assign(ward="new")
    site.to_csv(tmp_path / "new.csv", index=False)
    site.assign(ill=1 - site.ill).to_csv(tmp_path / "odd.csv", index=False)
    asked = ["--expected", kept, "--metric", "auroc", "--json"]
    found = json.loads(shiftproof("evaluate", run, tmp_path / "new.csv", *asked)[1])
    (inside,) = found["expected"]
    assert inside["state"] == "inside"
    assert inside["value"] == pytest.approx(found["domains"][0]["scores"]["auroc"])
    _, text, _ = shiftproof("evaluate", run, tmp_path / "odd.csv", *asked[:-1])
    assert "is below the range" in text
    assert "look at what differs there" in text
    code, _, error = shiftproof(
        "evaluate", run, tmp_path / "new.csv", "--expected", tmp_path / "no"
    )
    assert code == 2
    assert "holds no runs with held-out domains" in error
    assert shiftproof("evaluate", run, tmp_path / "new.csv", "--expected", folder)[0] == 0


def test_better_and_worse_than_expected() -> None:
    assert Comparison("x", "log_loss", 2.0, 0.1, 0.9).state == "worse"
    assert Comparison("x", "log_loss", 0.05, 0.1, 0.9).state == "better"
    assert Comparison("x", "auroc", 0.95, 0.1, 0.9).state == "better"
    assert Comparison("x", "calibration_slope", 3.0, 0.1, 0.9).state == "worse"


def test_predict_adds_sets(
    six: pd.DataFrame, each: Any, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    folder, run = each.runs[0].folder.parent, each.runs[0].folder
    six[six.ward == "a"].drop(columns="ill").to_csv(tmp_path / "new.csv", index=False)
    asked = ["predict", run, tmp_path / "new.csv", "--out", tmp_path / "out.csv"]
    assert shiftproof(*asked, "--sets", "0.8", "--expected", folder)[0] == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype={"set": str}, keep_default_na=False)
    threshold, promised = score_threshold(list(each.outputs.values()), 0.8)
    assert promised
    for name in "01":
        inside = found["set"].str.split("|").map(lambda own, name=name: name in own)
        assert (inside == (1 - found[f"p({name})"] <= threshold + 1e-6)).all()
    _, _, error = shiftproof(*asked, "--sets", "0.9", "--expected", folder)
    assert "sets of 0.9 need 9 held-out domains, but there are only 6" in error
    code, _, error = shiftproof(*asked, "--sets", "0.9")
    assert (code, error) == (
        2,
        "error: --sets needs --expected, the runs that hold out each domain in turn\n",
    )


def test_held_out_runs_must_have_the_classes_of_the_model(
    six: pd.DataFrame, each: Any, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    """As many classes, but of other names: their order may be another one."""
    named = six.assign(ill=np.where(six.ill == 1, "ill", "well"))
    named.to_csv(tmp_path / "named.csv", index=False)
    asked = [tmp_path / "named.csv", "--label", "ill", "--domain", "ward", "--quiet"]
    train = ["train", *asked, "-a", "linear", "--test-domain", "a", "--out", tmp_path / "run"]
    assert shiftproof(*train)[0] == 0
    folder = each.runs[0].folder.parent
    message = (
        "error: the held-out runs have the classes '0', '1', and the model 'ill', 'well';"
        " give runs of the same task\n"
    )
    for command, *more in (("predict", "--sets", "0.8"), ("evaluate",)):
        code, _, error = shiftproof(
            command, tmp_path / "run", tmp_path / "named.csv", "--expected", folder, *more
        )
        assert (code, error) == (2, message)


def test_train_says_the_probability_of_falling_short(
    six: pd.DataFrame, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    six.to_csv(tmp_path / "six.csv", index=False)
    same = [tmp_path / "six.csv", "-a", "linear", "--label", "ill", "--domain", "ward", "--quiet"]
    same += ["--test-domain", "each", "--out", tmp_path / "runs"]
    same += ["--metric", "auroc", "--at-least", "0.7"]
    _, text, _ = shiftproof("train", *same)
    assert "AUROC to expect at the next domain" in text
    assert "probability that the next domain is below 0.7" in " ".join(text.split())
    stored = json.loads(shiftproof("train", *same, "--json")[1])
    assert stored["metric"] == "auroc"
    expected = stored["expected"]["auroc"]
    assert {"mean", "low", "high", "level", "tau", "domains"} <= set(expected)
    assert expected["domains"] == 6
    assert set(stored["expected"]) == {*METRICS.of("classification")}
    again = json.loads(
        shiftproof("expect", tmp_path / "runs", "--metric", "auroc", "--at-least", "0.7", "--json")[
            1
        ]
    )
    assert again["at_least"] == stored["at_least"]
    assert again["expected"] == stored["expected"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--at-least", "0.7"], "--at-least needs --test-domain each"),
        (["--test-domain", "each", "--at-least", "7"], "--at-least must be between 0 and 1, not 7"),
        (["--metric", "auc"], "--metric 'auc' is unknown; did you mean 'auroc'?"),
    ],
)
def test_mistakes_with_the_metric_and_the_threshold(
    options: list[str], message: str, table: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    asked = ["train", table, "-a", "linear", "--label", "ill", "--domain", "ward", *options]
    code, _, error = shiftproof(*asked)
    assert code == 2
    assert error.startswith(f"error: {message}")


def test_best_is_trained_for_the_metric_and_its_runs_show_it(
    six: pd.DataFrame, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"hparams": {"budget": 1e-3}, "out": tmp_path, **COLUMNS}
    each = shiftproof.train_each(six, "best", metric="auroc", **settings)
    assert {run.config.hparams["metric"] for run in each.runs} == {"auroc"}
    assert each.metric == each.expected.metric == shiftproof.expect(each).metric == "auroc"
    assert each.classes == ("0", "1")
    page = shiftproof.report(tmp_path).page()
    assert "expect AUROC" in page
    assert "expect log loss" in shiftproof.report(tmp_path, metric="log_loss").page()
    with pytest.raises(InvalidValue, match="`metric` and `hparams` give metric twice"):
        shiftproof.train(six, "best", metric="f1", hparams={"metric": "f1"}, **COLUMNS)
    with pytest.raises(InvalidValue, match="`metric` 'auc' is unknown"):
        shiftproof.train_each("no-such-file.csv", metric="auc")


def test_other_classes_than_the_model_has_are_refused(
    six: pd.DataFrame, each: Any, tmp_path: Path, shiftproof: Callable[..., tuple[int, str, str]]
) -> None:
    """As many classes, but other ones: comparing them would be silent nonsense."""
    renamed = six[six.ward.isin(["a", "b", "c"])].assign(
        ill=lambda own: own.ill.map({0: "x", 1: "y"})
    )
    other = shiftproof_train_each(renamed, tmp_path / "other")
    site = tmp_path / "site.csv"
    six[six.ward == "a"].to_csv(site, index=False)
    code, _, error = shiftproof(
        "evaluate", each.runs[0].folder, site, "--expected", other.runs[0].folder.parent
    )
    assert code == 2
    assert "the held-out runs have the classes 'x', 'y', and the model '0', '1'" in error


def shiftproof_train_each(frame: pd.DataFrame, out: Path) -> Any:
    return shiftproof.train_each(frame, "linear", out=out, **COLUMNS)
