"""Model files that were damaged or crafted: each is refused in one line, none predicts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from _internals import (
    HEADER,
    CheckpointError,
    DataError,
    configure,
    from_arrays,
    model_bytes,
    table_dataset,
    train,
    trained_model,
)

from shiftproof import ShiftproofError, TrainedModel

Header = dict[str, Any]
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": np.repeat(["a", "b", "c"], 30),
            "age": rng.normal(50, 9, 90),
            "ward": rng.choice(["x", "y", "z"], 90),
            "ill": rng.choice(["no", "yes"], 90),
        }
    )
    dataset = table_dataset(frame, "patients", "ill", "site")
    config = configure(dataset, "erm", steps=2, test_domains=["c"], device="cpu")
    folder = tmp_path_factory.mktemp("run")
    train(config, dataset, folder)
    return trained_model(config, dataset, folder)


def crafted(
    model: TrainedModel,
    change: Callable[[Header], object] = lambda header: None,
    spoil: Callable[[Tensors], object] = lambda tensors: None,
) -> bytes:
    tensors = safetensors.torch.load(model.to_bytes())
    header = copy.deepcopy(model.described())
    change(header)
    spoil(tensors)
    return model_bytes(header, {name: tensor.numpy() for name, tensor in tensors.items()})


def refused(data: bytes, match: str) -> None:
    with pytest.raises(CheckpointError, match=match) as error:
        TrainedModel.from_bytes(data, "cpu", "m.safetensors")
    message = str(error.value)
    assert message.startswith("m.safetensors is not a valid model file (")
    assert message.isprintable()
    assert len(message) < 350


def part(header: Header, kind: str) -> Any:
    return next(part for part in header["form"]["parts"] if part["kind"] == kind)


def test_the_model_itself_is_read(made: TrainedModel) -> None:
    assert TrainedModel.from_bytes(crafted(made), "cpu").classes == ("no", "yes")


HEADERS: dict[str, tuple[Callable[[Header], object], str]] = {
    "algorithm a list": (
        lambda h: h["config"].update(algorithm=["erm"]), r"config\.algorithm must be a .*str"
    ),
    "codes out of range": (
        lambda h: part(h, "one-hot").update(codes=[0, 99]), "a code of column 1 is not one of 3"
    ),
    "negative code": (
        lambda h: part(h, "one-hot").update(codes=[-1]), "a code of column 1 is not one of 3"
    ),
    "column 99": (lambda h: part(h, "scaled").update(column=99), "column 99 of 2"),
    "mean a text": (lambda h: part(h, "scaled").update(mean="5"), "mean must be a finite float"),
    "scale NaN": (lambda h: part(h, "scaled").update(std=float("nan")), "std must be a finite"),
    "scale 0": (lambda h: part(h, "scaled").update(std=0.0), r"not positive|parts\[0\] must be"),
    "mean 10^400": (lambda h: part(h, "scaled").update(mean=10**400), "mean must be a finite"),
    "form null": (lambda h: h.update(form=None), "header.form must be an object"),
    "form a list": (lambda h: h.update(form=[1]), "header.form must be an object"),
    "columns null": (lambda h: h.update(columns=None), "header.columns must be an object"),
    "columns a list": (lambda h: h.update(columns=["ill"]), "header.columns must be an object"),
    "form.columns null": (lambda h: h["form"].update(columns=None), "form.columns must be a list"),
    "parts null": (lambda h: h["form"].update(parts=[None]), r"parts\[0\] must be an object"),
    "lone surrogate": (lambda h: h.update(classes=["no", "\ud800"]), r"classes\[1\] must be"),
    "three classes": (lambda h: h.update(classes=["a", "b", "c"]), "classes and task.num_classes"),
    "classes twice": (lambda h: h.update(classes=["a", "a"]), "a class occurs twice"),
    "a file of ours": (
        lambda h: h["config"].update(weights_file="secret"), "unknown keys: 'weights_file'"
    ),
    "no config": (lambda h: h.pop("config"), "lacks 'config'"),
    "input shape": (lambda h: h["task"].update(input_shape=[7]), "for a network of"),
    "regime": (lambda h: h["task"].update(regime="x"), r"task\.regime must be one of"),
    "steps a truth value": (lambda h: h["config"].update(steps=True), r"config\.steps must be"),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADERS)
def test_a_crafted_header(made: TrainedModel, case: str) -> None:
    change, match = HEADERS[case]
    refused(crafted(made, change), match)


def test_a_format_that_steers_a_terminal_is_not_printed(made: TrainedModel) -> None:
    data = crafted(made, lambda header: header.update(format="a\nb\r\x00c" * 99))
    with pytest.raises(DataError, match="its format is not a version number") as error:
        TrainedModel.from_bytes(data, "cpu")
    assert str(error.value).isprintable()


def test_a_header_that_is_no_object(made: TrainedModel) -> None:
    tensors = safetensors.torch.load(made.to_bytes())
    for text in ("[]", "null", "7", '{"a":' * 50_000 + "1" + "}" * 50_000):
        refused(safetensors.torch.save(tensors, metadata={HEADER: text}), "valid")


def fill(tensors: Tensors, prefix: str, value: float) -> None:
    next(t for name, t in tensors.items() if name.startswith(prefix)).view(-1)[0] = value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("prefix", ["network.", "typicality.whitening", "typicality.means"])
def test_weights_that_are_not_finite(made: TrainedModel, prefix: str, value: float) -> None:
    refused(crafted(made, spoil=lambda t: fill(t, prefix, value)), "values that are not finite")


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("means", torch.zeros(3)),
        ("means", torch.zeros(2, 9)),
        ("means", torch.zeros(0, 4)),
        ("whitening", torch.zeros(4)),
        ("whitening", torch.zeros(4, 9)),
        ("distances", torch.zeros(2, 2)),
        ("distances", torch.tensor([2.0, 1.0])),
        ("extra", torch.zeros(1)),
    ],
)
def test_wrong_shapes_in_the_typicality(
    made: TrainedModel, name: str, tensor: torch.Tensor
) -> None:
    refused(crafted(made, spoil=lambda t: t.update({f"typicality.{name}": tensor})), "valid")


def test_a_typicality_that_does_not_fit_the_network_is_refused_when_used(
    made: TrainedModel,
) -> None:
    with pytest.raises(ShiftproofError, match="describes 4 features, but the network has 3"):
        made.typicality.distance(torch.zeros(1, 3))


def test_damaged_bytes_are_never_a_traceback(made: TrainedModel) -> None:
    data = made.to_bytes()
    rng = np.random.default_rng(0)
    length = int.from_bytes(data[:8], "little") + 8
    said = []
    for _ in range(150):
        spoiled = bytearray(data)
        for place in rng.integers(0, length, size=rng.integers(1, 4)):
            spoiled[place] = rng.integers(0, 256)
        try:
            TrainedModel.from_bytes(bytes(spoiled), "cpu")
        except ShiftproofError as error:
            said.append(str(error))
    assert len(said) > 50
    assert not [message for message in said if "\n" in message or len(message) > 400]


@pytest.fixture(scope="module", params=["linear", "boosting", "erm"])
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The files of a linear model, of trees, and of a network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3)).astype(np.float32)
    y = np.array(["no", "yes"])[(x[:, 0] + rng.normal(size=120) > 0).astype(int)]
    dataset = from_arrays(x, y, np.arange(120) % 3)
    few = {"boosting": {"trees": 5}, "linear": {"penalty": 0.1}, "erm": {}}[request.param]
    config = configure(dataset, request.param, steps=1, hparams=few, device="cpu")
    folder = tmp_path_factory.mktemp(request.param)
    train(config, dataset, folder)
    data = trained_model(config, dataset, folder).to_bytes()
    again = tmp_path_factory.mktemp(request.param)
    train(config, dataset, again)
    # The same run gives the same bytes.
    assert trained_model(config, dataset, again).to_bytes() == data
    return data


def test_a_single_flipped_bit_is_refused(sealed: bytes) -> None:
    rng = np.random.default_rng(1)
    places = {*range(64), *range(len(sealed) - 64, len(sealed)), *rng.integers(0, len(sealed), 300)}
    TrainedModel.from_bytes(sealed, "cpu")
    for place in places:
        flipped = bytearray(sealed)
        flipped[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(CheckpointError) as refused:
            TrainedModel.from_bytes(bytes(flipped), "cpu")
        assert str(refused.value).isprintable()
