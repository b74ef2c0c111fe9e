"""Runs of version 0.1, whose matching had other state: what still works, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from _internals import (
    CheckpointError,
    RunConfig,
    configure,
    load_state,
    problem,
    save_state,
    train,
    trained_model,
)

CHECKPOINT = "checkpoint.safetensors"
# The state of matching in version 0.1, in place of what is under these names now.
OLD = {"idm": "gradient_match.average.average", "rdm-pdm": "risk_match.average.average"}
PREDICTS = ("featurizer.", "head.")


def trained(name: str, folder: Path) -> RunConfig:
    data = problem(domains=3)
    config = configure(
        data, name, test_domains=data.domain_names[-1:], steps=4, device="cpu",
        hparams={"batch_size": 8, "hidden": 8},
    )  # fmt: skip
    train(config, data, folder)
    return config


def age(name: str, folder: Path) -> None:
    """Give the checkpoint the state of version 0.1."""
    state = load_state(folder / CHECKPOINT)
    modules = state["algorithm"]["modules"]
    kept = {name: value for name, value in modules.items() if name.startswith(PREDICTS)}
    assert kept.keys() < modules.keys()
    state["algorithm"]["modules"] = kept | {OLD[name]: torch.zeros(2, 8, 9)}
    save_state(folder / CHECKPOINT, state)


@pytest.mark.parametrize("name", OLD)
def test_an_unfinished_run_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    config = trained(name, tmp_path)
    age(name, tmp_path)
    (tmp_path / "done.json").unlink()
    with pytest.raises(CheckpointError, match="does not fit this version") as error:
        train(config, problem(domains=3), tmp_path)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", OLD)
def test_the_weights_of_a_finished_run_are_used(name: str, tmp_path: Path) -> None:
    """The state of matching is not part of a model."""
    config, data = trained(name, tmp_path), problem(domains=3)
    expected = trained_model(config, data, tmp_path).probabilities(data.domains[0].x)
    age(name, tmp_path)
    found = trained_model(config, data, tmp_path).probabilities(data.domains[0].x)
    assert torch.equal(found, expected)
