"""The temperature of a network: fitted on held-out parts, kept in the file, and used everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch
from _internals import (
    MODEL,
    CheckpointError,
    Outputs,
    TrainedRun,
    calibrated_outputs,
    class_probabilities,
    held_out_in,
    held_out_temperature,
    load_outputs,
    model_bytes,
    outputs_of,
    read_checkpoint,
    stored_header,
    table_dataset,
)
from scipy.optimize import minimize_scalar

import shiftproof
from shiftproof import Task, TrainedModel


def temperature_of(held_out: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> float:
    """Return the temperature from logits and labels of each domain."""
    return held_out_temperature(
        {
            name: (class_probabilities(logits.double()).numpy(), labels.numpy())
            for name, (logits, labels) in held_out.items()
        }
    )


def logits_of(probabilities: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.log(probabilities))


def hospitals(n: int = 240) -> pd.DataFrame:
    """Labels that are mostly noise, so that a network trained for long is too sure."""
    rng = np.random.default_rng(0)
    ill = rng.integers(2, size=n)
    frame = pd.DataFrame(rng.normal(size=(n, 6)), columns=list("abcdef"))
    frame["a"] += 0.7 * ill
    return frame.assign(hospital=np.array(["north", "south", "west"])[np.arange(n) % 3], ill=ill)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    return shiftproof.train(
        hospitals(), "erm", label="ill", domain="hospital", test_domains="north", steps=120,
        out=tmp_path_factory.mktemp("runs") / "erm", device="cpu",
    )  # fmt: skip


@pytest.mark.parametrize("true", [0.5, 1.0, 3.0])
def test_it_is_the_temperature_that_the_labels_were_drawn_with(true: float) -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, (2, 20000, 3))
    drawn = logits / true + rng.gumbel(size=logits.shape)  # the largest has softmax(logits / T)
    held_out = {
        str(i): (torch.from_numpy(logits[i]), torch.from_numpy(drawn[i].argmax(axis=1)))
        for i in range(2)
    }
    assert temperature_of(held_out) == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("n", [1, 4, 50])
def test_rows_that_are_all_right_do_not_make_it_certain(n: int) -> None:
    """n right rows of probability p, and one row as predicted: the best is (n + p) / (n + 1)."""
    p = 0.8
    found = temperature_of(
        {"a": (logits_of(np.tile([1 - p, p], (n, 1))), torch.ones(n, dtype=torch.int64))}
    )
    best = (n + p) / (n + 1)
    expected = np.log(p / (1 - p)) / np.log(best / (1 - best))
    assert found == pytest.approx(expected, rel=1e-3)


def test_every_domain_has_the_same_weight() -> None:
    """A domain that is right as often as predicted, and a large one that is never right."""
    p, right = np.array([0.2, 0.8]), torch.tensor([0, 1, 1, 1, 1])
    small, large = logits_of(np.tile(p, (5, 1))), logits_of(np.tile(p, (995, 1)))
    found = temperature_of(
        {"small": (small, right), "large": (large, torch.zeros(995, dtype=torch.int64))}
    )
    # The share of right rows, with the row as predicted: (0.8 + 0.8 / 996) / 2 is below one half,
    # where the least loss is at the flattest probabilities.
    assert found == pytest.approx(np.exp(3), rel=1e-3)
    both = temperature_of({"small": (small, right), "again": (small, right)})
    assert both == pytest.approx(1, rel=1e-3)


def test_without_held_out_rows_it_is_one() -> None:
    assert temperature_of({}) == 1
    none = torch.zeros(0, dtype=torch.int64)
    assert temperature_of({"a": (torch.zeros(0, 2), none)}) == 1


def test_one_logit_is_that_of_the_second_class() -> None:
    rng = np.random.default_rng(2)
    logit = torch.from_numpy(rng.normal(0, 4, (5000, 1)))
    labels = (torch.from_numpy(rng.random(5000)) < torch.sigmoid(logit[:, 0] / 2)).long()
    two = torch.cat([torch.zeros_like(logit), logit], dim=1)
    found = temperature_of({"a": (logit, labels)})
    assert found == pytest.approx(temperature_of({"a": (two, labels)}), rel=1e-4)
    task = Task((1,), 2, 1, "table")
    outputs = outputs_of(task, logit, labels, np.arange(5000))
    assert isinstance(outputs, Outputs)
    assert outputs.probabilities.shape == (5000, 2)


def test_a_run_is_calibrated_on_the_held_out_parts_of_its_training_domains(
    trained: TrainedRun,
) -> None:
    """Against the least loss by a plain search over T of the uncalibrated model's logits."""
    frame, model = hospitals(), trained.model
    dataset = table_dataset(frame, "t", "ill", "hospital")
    raw = model.network.algorithm
    parts = []
    for name, split in trained.config.training_splits(dataset).items():
        rows = frame[frame.hospital == name].iloc[split.out]
        logits = (
            raw.predict(torch.from_numpy(model.form.features(model.form.read(rows))))
            .detach()
            .double()
        )
        parts.append((logits, torch.tensor(rows.ill.to_numpy())))
    assert len(parts) == 2

    def loss(log_temperature: float) -> float:
        total = 0.0
        for logits, labels in parts:
            predicted = (logits / np.exp(log_temperature)).log_softmax(dim=1)
            as_predicted = -(logits.softmax(dim=1) * predicted).sum(dim=1).mean()
            own = -predicted[torch.arange(len(labels)), labels].sum()
            total += float(own + as_predicted) / (len(labels) + 1)
        return total

    best = np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)
    assert model.temperature == pytest.approx(best, rel=1e-3)
    assert model.temperature > 1.1  # too sure before


def test_predictions_outputs_and_file_have_it(trained: TrainedRun) -> None:
    frame, model = hospitals(), trained.model
    rows = model.form.read(frame[frame.hospital == "north"])
    logits = model.network.algorithm.predict(torch.from_numpy(model.form.features(rows))).detach()
    expected = (logits.double() / model.temperature).softmax(dim=1).numpy()
    found = model.predict_proba(rows)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(trained.outputs["north"].probabilities, expected, atol=1e-5)
    each = held_out_in(trained.folder.parent).outputs
    np.testing.assert_allclose(each["north"].probabilities, expected, atol=1e-5)
    assert stored_header(trained.folder)["temperature"] == model.temperature
    again = TrainedModel.from_bytes(model.to_bytes(), "cpu")
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_training_does_not_depend_on_it(trained: TrainedRun) -> None:
    """What the run stores is the network's own: as its record says."""
    (own,) = load_outputs(trained.folder / "held_out.safetensors").values()
    risk = trained.metrics["risk"]
    total = {"in": 0.8, "out": 0.2}
    scored = sum(share * risk[f"north/{part}"] for part, share in total.items())
    stored = -np.log(own.probabilities[np.arange(len(own.labels)), own.labels]).mean()
    assert stored == pytest.approx(scored, rel=1e-4)
    assert "temperature" not in json.dumps(sorted(read_checkpoint(trained.folder)))


def with_header(model: TrainedModel, **changed: object) -> bytes:
    described = {**model.described(), **changed}
    described = {name: value for name, value in described.items() if value is not None}
    return model_bytes(described, safetensors.numpy.load(model.to_bytes()))


def test_models_without_one_have_temperature_one(trained: TrainedRun, tmp_path: Path) -> None:
    old = TrainedModel.from_bytes(with_header(trained.model, temperature=None), "cpu")
    assert old.temperature == 1
    rows = old.form.read(hospitals())
    logits = old.network.algorithm.predict(torch.from_numpy(old.form.features(rows))).detach()
    assert np.array_equal(old.predict_proba(rows), logits.softmax(dim=1).numpy())
    (tmp_path / MODEL).write_bytes(with_header(trained.model, temperature=None))
    outputs = trained.folder / "held_out.safetensors"
    (tmp_path / outputs.name).write_bytes(outputs.read_bytes())
    found, stored = calibrated_outputs(tmp_path), load_outputs(outputs)
    np.testing.assert_array_equal(found["north"].probabilities, stored["north"].probabilities)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan"), "2"])
def test_a_damaged_temperature_is_an_error(trained: TrainedRun, value: object) -> None:
    with pytest.raises(CheckpointError, match="not a valid model file"):
        TrainedModel.from_bytes(with_header(trained.model, temperature=value), "cpu")


def test_learners_that_are_fitted_at_once_and_runs_without_held_out_parts_have_none(
    tmp_path: Path,
) -> None:
    settings = {"label": "ill", "domain": "hospital", "steps": 3, "device": "cpu"}
    for name, holdout in (("linear", 0.2), ("erm", 0.0)):
        run = shiftproof.train(
            hospitals(), name, holdout=holdout, evaluate="test-in", out=tmp_path / name, **settings
        )
        assert run.model.temperature == 1
        assert "temperature" not in stored_header(run.folder)
