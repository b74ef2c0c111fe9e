"""Only runs of the size and data that were asked for stand beside the paper's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from _internals import STUDIES, Choice, DataError, runs_of_study

COLOURS = ("90%", "80%", "10%")


@pytest.fixture
def run(make_run):
    def configured(**config):
        made = make_run("colored-mnist", "idm", COLOURS, "10%", {"10%": 0.5}, outside={"10%": 0.5})
        evaluations = (made.evaluations[0]._replace(step=5001),)
        return replace(made, evaluations=evaluations, config=config)

    return configured


def read(run, **choice):
    return runs_of_study([run], STUDIES["ablation-pdm"](), Choice(**choice))


def test_the_published_network_and_steps_are_taken(run):
    whole = run(steps=5001, backbone="mnist-cnn")
    assert read(whole) == [whole]
    bare = run()  # no settings: the steps are those of its last record
    assert read(bare) == [bare]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"steps": 5001, "backbone": "mlp"}, "the network mlp on colored-mnist, not of mnist-cnn"),
        (
            {"steps": 5001, "backbone": "mlp", "extractor": {"backbone": "resnet18"}},
            "frozen features",
        ),
        ({"steps": 1001, "backbone": "mnist-cnn"}, "1,001 steps, not 5,001"),
    ],
)
def test_smaller_runs_are_refused(run, config, says):
    with pytest.raises(DataError, match=says):
        read(run(**config))


def test_steps_are_read_from_the_records_if_the_settings_are_gone(run):
    bare = run()
    short = replace(bare, evaluations=(bare.evaluations[0]._replace(step=300),))
    with pytest.raises(DataError, match="300 steps, not 5,001"):
        read(short)
    stopped = replace(short, status="diverged")
    assert read(stopped) == [stopped]


def test_a_stand_in_without_runs_is_an_error(run):
    with pytest.raises(DataError, match="no run on colours, only on colored-mnist"):
        read(run(), data={"colored-mnist": "folder/colours"})


@pytest.mark.parametrize("name", ["IDM", "idm", "Idm"])
def test_rows_are_named_with_capitals_or_without(name):
    (block,) = STUDIES["ablation-pdm"]().blocks(Choice(rows=(name,)))
    assert [row.name for row in block.variants] == ["idm"]
