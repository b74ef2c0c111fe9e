"""Starting weights from a file: all of it fits, or one line says why not; no code is run."""

import os
import pickle
import warnings
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from _internals import (
    CheckpointError,
    InvalidValue,
    content_hash,
    load_weights,
    read_weights,
    resolve,
)
from safetensors.torch import load_file, save_file
from torch import nn

from shiftproof import Task
from shiftproof.models import MODELS

IMAGES = Task((3, 64, 64), 4, 2, "large-image")
EFFICIENTNET = Path(__file__).parents[3] / "shared/data/weights/tf_efficientnet_lite0.safetensors"


def build(name, weights):
    torch.manual_seed(0)
    return resolve(MODELS.get(name), IMAGES.regime, {"weights": str(weights)}).build(IMAGES)


def one_line(error, weights, name="resnet18"):
    with pytest.raises(error) as caught:
        build(name, weights)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


@pytest.fixture(scope="module")
def trained():
    """A ResNet-18 with weights of its own, the statistics too."""
    torch.manual_seed(1)
    network = torchvision.models.resnet18(num_classes=7)
    for name, value in network.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            value.uniform_(0.5, 1.5)
    return network.eval()


def without_head(network, x):
    with torch.no_grad():
        head, network.fc = network.fc, nn.Identity()
        features = network(x)
        network.fc = head
    return features


# --- files that are taken ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["safetensors", "torch", "legacy", "state_dict", "model"])
def test_every_kind_of_file_is_loaded_whatever_it_is_called(kind, trained, tmp_path):
    path, state = tmp_path / "weights.bin", trained.state_dict()
    if kind == "safetensors":
        save_file(state, path)
    elif kind in ("state_dict", "model"):
        torch.save({"epoch": 3, kind: state}, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind == "torch")
    featurizer = build("resnet18", path).featurizer.eval()
    x = torch.rand(2, 3, 64, 64)
    assert torch.equal(featurizer(x), without_head(trained, x))


def test_old_files_count_no_batches_and_half_precision_is_as_good(trained, tmp_path):
    state = {
        name: value.bfloat16()
        for name, value in trained.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    save_file(state, tmp_path / "w")
    loaded = build("resnet18", tmp_path / "w").featurizer[1].state_dict()
    for name, value in state.items():
        if not name.startswith("fc."):
            assert torch.equal(loaded[name], value.float())


def test_of_a_head_only_the_classifier_is_left_out(tmp_path):
    """ConvNeXt's last norm is called head.norm: part of the features, and it must be there."""
    network = timm.create_model("test_convnext")
    state = network.state_dict()
    assert {"head.norm.weight", "head.fc.weight"} <= state.keys()
    state["head.norm.weight"] += 1
    save_file(state, tmp_path / "w")
    loaded = build("test_convnext", tmp_path / "w").featurizer[1].state_dict()
    assert torch.equal(loaded["head.norm.weight"], state["head.norm.weight"])
    del state["head.norm.weight"]
    save_file(state, tmp_path / "w")
    message = one_line(CheckpointError, tmp_path / "w", "test_convnext")
    assert "1 missing: head.norm.weight" in message


# --- files that are refused -------------------------------------------------------------------


class Code:
    """Unpickled, it leaves a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_with_code_is_refused_and_not_run(kind, tmp_path):
    path, trace = tmp_path / "weights.pt", tmp_path / "trace"
    content = {"conv1.weight": torch.zeros(3), "extra": Code(str(trace))}
    if kind == "torch":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    message = one_line(CheckpointError, path)
    assert "hold code or objects (none was run)" in message
    assert "weights_only" not in message
    assert not trace.exists()


@pytest.mark.parametrize("kind", ["safetensors", "torch", "legacy"])
@pytest.mark.parametrize("share", [0.0, 0.00001, 0.5, 0.999])
def test_a_truncated_file_is_refused(kind, share, trained, tmp_path):
    path, state = tmp_path / "weights", trained.state_dict()
    if kind == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path, _use_new_zipfile_serialization=kind == "torch")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    message = one_line(CheckpointError, path)
    assert str(path) in message
    assert "damaged" in message


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x89PNG\r\n\x1a\n" + bytes(64), b"12345678{not json", bytes(8) + b"{}",
     b"<html><body>404</body></html>", b"PK\x03\x04" + bytes(30), pickle.dumps([1], 4)],
)  # fmt: skip
def test_a_wrong_file_is_refused(content, tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        one_line(CheckpointError, path)
    assert not told


@pytest.mark.parametrize("content", [[torch.zeros(2)], {}, torch.zeros(3), 7, {"state_dict": {}}])
def test_a_torch_file_of_something_else_is_refused(content, tmp_path):
    torch.save(content, tmp_path / "w")
    assert "holds no named tensors" in one_line(CheckpointError, tmp_path / "w")


def test_a_value_that_is_no_tensor_is_named(tmp_path):
    torch.save({"conv1.weight": torch.zeros(2), "epoch": 3}, tmp_path / "w")
    assert "holds 'epoch', which is not a tensor" in one_line(CheckpointError, tmp_path / "w")


def test_another_architecture_is_refused_with_counts_and_the_first_keys(trained, tmp_path):
    save_file(trained.state_dict(), tmp_path / "w")
    message = one_line(CheckpointError, tmp_path / "w", "resnet50")
    assert f"{tmp_path / 'w'} does not fit resnet50: " in message
    own = torchvision.models.resnet50().state_dict()
    theirs = trained.state_dict()
    missing = [k for k in own if k not in theirs and not k.endswith("tracked")]
    assert f"{len(missing)} missing: {', '.join(missing[:3])}, …; " in message
    assert "misshapen: layer1.0.conv1.weight [64, 64, 3, 3] for [64, 64, 1, 1], " in message


@pytest.mark.skipif(not EFFICIENTNET.exists(), reason="no shared data here")
def test_the_efficientnet_is_no_resnet():
    message = one_line(CheckpointError, EFFICIENTNET)
    own, theirs = (
        {k for k in keys if not k.endswith("tracked") and not k.startswith(("fc.", "classifier."))}
        for keys in (torchvision.models.resnet18().state_dict(), load_file(EFFICIENTNET))
    )
    counters = sum(k.endswith("tracked") for k in load_file(EFFICIENTNET)) - 1  # bn1 is in both
    assert f"{len(own - theirs)} missing: conv1.weight, " in message
    assert f"{len(theirs - own) + counters} unexpected: blocks.0.0.bn1.bias, " in message
    assert "4 misshapen: bn1.weight [32] for [64], " in message


@pytest.mark.parametrize("fault", ["missing", "unexpected", "misshapen", "dtype"])
def test_one_wrong_key_is_enough_and_nothing_is_taken(fault, trained, tmp_path):
    state = trained.state_dict()
    key = "layer4.1.bn2.running_mean"
    if fault == "missing":
        del state[key]
        words = f"does not fit resnet18: 1 missing: {key}"
    elif fault == "unexpected":
        state["layer5.weight"] = torch.zeros(1)
        words = "does not fit resnet18: 1 unexpected: layer5.weight"
    elif fault == "misshapen":
        state[key] = torch.zeros(511)
        words = f"does not fit resnet18: 1 misshapen: {key} [511] for [512]"
    else:
        state[key] = torch.zeros(512, dtype=torch.uint8)
        words = f"1 misshapen: {key} [512] of whole numbers for [512]"
    save_file(state, tmp_path / "w")
    assert one_line(CheckpointError, tmp_path / "w").endswith(words)
    network = torchvision.models.resnet18()
    network.fc = nn.Identity()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(CheckpointError):
        load_weights(network, read_weights(str(tmp_path / "w")), source="w", architecture="it")
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_file_that_is_not_there(tmp_path):
    message = one_line(InvalidValue, tmp_path / "none.pt")
    assert message.startswith("`weights` must be pretrained, random or a file; there is no file")
    assert "there is no file" in one_line(InvalidValue, tmp_path)
    assert "`weights` must name a file" in one_line(InvalidValue, "sha256:0123456789abcdef")


# --- content ----------------------------------------------------------------------------------


def test_the_hash_is_of_the_content(tmp_path):
    import hashlib

    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"one")
    (tmp_path / "c").write_bytes(b"two")
    a, b, c = (content_hash(str(tmp_path / name)) for name in "abc")
    assert a == b == "sha256:" + hashlib.sha256(b"one").hexdigest()[:16]
    assert c != a
