"""Losses of numbers: values by hand, derivatives by autograd, names."""

from __future__ import annotations

import pytest
import torch
from _internals import NUMBER_LOSSES, InvalidValue, UnknownName, loss_named

from shiftproof import Task

NAMED = ["squared", "absolute", "huber", "huber:0.3", "quantile", "quantile:0.9"]


@pytest.mark.parametrize("name", [*NAMED, "cross_entropy"])
def test_the_residual_is_the_derivative(name):
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(3, 40, 1, dtype=torch.float64, generator=generator).requires_grad_()
    labels = torch.randn(3, 40, dtype=torch.float64, generator=generator)
    if name == "cross_entropy":
        labels = (labels > 0).long()
    loss = loss_named(name)
    risk = loss.risk(outputs, labels)
    assert risk.shape == labels.shape
    (slope,) = torch.autograd.grad(risk.sum(), outputs)
    assert torch.allclose(loss.residual(outputs, labels), slope, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("squared", [2.0, 0.125, 0.0, 4.5]),
        ("absolute", [2.0, 0.5, 0.0, 3.0]),
        ("huber:1", [1.5, 0.125, 0.0, 2.5]),
        ("quantile:0.9", [1.8, 0.05, 0.0, 0.3]),
    ],
)
def test_values(name, expected):
    outputs = torch.tensor([[-2.0], [0.5], [0.0], [3.0]], dtype=torch.float64)
    found = loss_named(name).risk(outputs, torch.zeros(4, dtype=torch.float64))
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64))


def test_the_quantile_loss_is_least_at_the_quantile():
    y = torch.arange(1, 101, dtype=torch.float64)
    loss = loss_named("quantile:0.9")
    at = {c: float(loss.risk(torch.full((100, 1), float(c)), y).mean()) for c in range(1, 101)}
    assert min(at, key=lambda c: at[c]) in (90, 91)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("squard", UnknownName, "did you mean 'squared'"),
        ("squared:2", InvalidValue, "takes no parameter: use 'squared' instead of 'squared:2'"),
        ("quantile:1", InvalidValue, r"must lie in \(0, 1\), not '1'"),
        ("quantile:x", InvalidValue, "not 'x'"),
        ("huber:-1", InvalidValue, r"must lie in \(0, inf\)"),
    ],
)
def test_names_that_are_none(name, error, message):
    with pytest.raises(error, match=message):
        loss_named(name)


def test_a_task_is_of_classes_or_of_numbers():
    numbers = Task((3,), 0, 2, "table", "squared", (5.0,), (2.0,))
    classes = Task((3,), 4, 2, "table")
    assert (numbers.kind, numbers.num_outputs) == ("regression", 1)
    assert (classes.kind, classes.num_outputs) == ("classification", 4)
    assert numbers.in_units(torch.tensor([[0.0], [1.5]])).tolist() == [5.0, 8.0]
    for task in (numbers, classes):
        assert Task.from_json(task.to_json()) == task
    assert set(classes.to_json()) == {"input_shape", "num_classes", "num_domains", "regime"}
    for count, loss in ((0, "cross_entropy"), (2, "squared")):
        with pytest.raises(
            InvalidValue,
            match="must be cross_entropy for a task with classes and a regression loss",
        ):
            Task((3,), count, 2, "table", loss)
    with pytest.raises(InvalidValue, match="`center` and `scale` must each have one entry"):
        Task((3,), 0, 2, "table", "squared", (0.0, 1.0), (2.0, 1.0))
    assert len(NUMBER_LOSSES) == 4
