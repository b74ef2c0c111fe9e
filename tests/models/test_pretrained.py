"""The networks of torchvision and timm: shapes, channels, frozen batch norm, training."""

import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from _internals import (
    CheckpointError,
    InvalidValue,
    UnknownName,
    build_algorithm,
    configure,
    resolve,
    train,
)
from safetensors.torch import load_file
from torch import nn
from torchvision.transforms.v2.functional import normalize

from shiftproof import Batch, Domain, DomainDataset, Task
from shiftproof.models import MODELS

EFFICIENTNET = Path(__file__).parents[3] / "shared/data/weights/tf_efficientnet_lite0.safetensors"
needs_efficientnet = pytest.mark.skipif(not EFFICIENTNET.exists(), reason="no shared data here")
SMALL = "test_resnet"  # timm's own smallest with batch norm


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def images(channels=3, size=64, classes=4):
    return Task((channels, size, size), classes, num_domains=2, regime="large-image")


def build(name, task, **given):
    torch.manual_seed(0)
    return resolve(MODELS.get(name), task.regime, {"weights": "random", **given}).build(task)


def norms(module):
    return [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def data_of(channels=3, size=64, classes=3):
    generator = torch.Generator().manual_seed(0)
    domains = tuple(
        Domain(
            name,
            torch.randint(256, (12, channels, size, size), generator=generator, dtype=torch.uint8),
            torch.arange(12) % classes,
        )
        for name in ("photo", "sketch", "cartoon")
    )
    return DomainDataset("toy", domains, tuple("abc"[:classes]), "large-image", "resnet18", 10)


# --- names and imports ------------------------------------------------------------------------


def test_neither_library_is_imported_before_one_of_its_networks_is_named():
    script = (
        "import sys, shiftproof.models as m\n"
        "list(m.MODELS.items()), m.MODELS.get('mlp'), m.MODELS.get('resnet50')\n"
        "print(sorted({'timm', 'torchvision'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_our_names_come_first_and_all_others_are_timm_s():
    assert MODELS.full_name("resnet50") == "resnet50"
    assert MODELS.get("resnet50").__name__ == "ResNet50"
    tagged = MODELS.full_name("tf_efficientnet_lite0")
    assert tagged == "tf_efficientnet_lite0.in1k"
    assert MODELS.full_name(tagged) == tagged
    assert MODELS.get("tf_efficientnet_lite0") is MODELS.get(tagged)
    assert MODELS.get("resnet50.a1_in1k").name == "resnet50.a1_in1k"
    untrained = next(n for n in timm.list_models() if not timm.models.is_model_pretrained(n))
    assert MODELS.full_name(untrained) == untrained


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnt50", "did you mean 'resnet50'"),
        ("mpl", "did you mean 'mlp'"),
        ("tf_eficientnet_lite0", "did you mean 'tf_efficientnet_lite0'"),
        ("tf_efficientnet_lite0.in2k", "did you mean 'tf_efficientnet_lite0"),
        ("§§§§", "known: mlp, mnist-cnn, resnet18, resnet50, any of timm.list_models()"),
    ],
)
def test_an_unknown_name_is_one_short_line_with_the_nearest_of_both(name, words):
    with pytest.raises(UnknownName) as caught:
        MODELS.get(name)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)


# --- shapes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "features"),
    [("resnet18", 512), ("resnet50", 2048), ("tf_efficientnet_lite0", 1280), (SMALL, None),
     ("test_convnext", None), ("test_vit", None)],
)  # fmt: skip
@pytest.mark.parametrize("channels", [2, 4])
def test_images_of_any_channels_become_features_and_logits(name, features, channels):
    size = 160 if name == "test_vit" else 64
    featurizer, head = build(name, images(channels, size), dropout=0.1)
    found = featurizer(torch.rand(2, channels, size, size))
    assert found.ndim == 2
    assert features in (None, found.shape[1])
    assert head(found).shape == (2, 4)
    assert isinstance(featurizer[-1], nn.Dropout)


def test_tables_and_images_that_do_not_fit_are_refused():
    with pytest.raises(InvalidValue, match=r"resnet18 takes images .* not \(7,\); use `backbone="):
        build("resnet18", Task((7,), 2, 2, "table"))
    with pytest.raises(InvalidValue, match=r"vit_tiny.* cannot take images of shape \(3, 64, 64\)"):
        build("vit_tiny_patch16_224", images())


# --- frozen batch norm ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet18", SMALL])
def test_batch_norm_statistics_never_move_while_its_affine_parameters_do(name):
    config = configure(data_of(), "erm", backbone=name, hparams={"weights": "random", "lr": 1e-3})
    algorithm = build_algorithm(config, config.task(data_of()))
    assert not any(norm.training for norm in norms(algorithm.featurizer))
    algorithm.eval()
    algorithm.train()
    assert algorithm.featurizer[0].training
    found = norms(algorithm.featurizer)
    assert found
    assert not any(norm.training for norm in found)
    for norm in found:  # not the neutral ones, which might be restored by chance
        norm.running_mean.uniform_(-0.1, 0.1)
        norm.running_var.uniform_(0.9, 1.1)
    before = [{k: v.clone() for k, v in norm.state_dict().items()} for norm in found]
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        x = torch.rand(2, 4, 3, 64, 64, generator=generator)
        algorithm.update(Batch(x, torch.randint(3, (2, 4), generator=generator)))
    for norm, then in zip(found, before, strict=True):
        now = norm.state_dict()
        assert torch.equal(now["running_mean"], then["running_mean"])
        assert torch.equal(now["running_var"], then["running_var"])
        assert now["num_batches_tracked"] == 0
        assert not torch.equal(now["weight"], then["weight"])
        assert not torch.equal(now["bias"], then["bias"])


def test_features_of_a_sample_do_not_depend_on_its_batch_in_training():
    featurizer = build("resnet18", images()).featurizer.train()
    x = torch.rand(3, 3, 64, 64)
    assert torch.allclose(featurizer(x)[:1], featurizer(x[:1]), atol=1e-5)


# --- downloads --------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, and no earlier download."""
    import huggingface_hub.constants

    def unreachable(*args, **kwargs):
        raise OSError("Name or service\nnot known")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))


@pytest.mark.parametrize("name", ["resnet18", "tf_efficientnet_lite0"])
def test_a_failed_download_is_one_line_that_names_the_parameter(name, offline):
    with pytest.raises(CheckpointError) as caught:
        resolve(MODELS.get(name), "large-image").build(images())
    assert f"the pretrained weights of {name}" in str(caught.value)
    assert "give a file as `weights`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "channels"), [("resnet18", 2), ("resnet18", 4), ("resnet50", 3), ("resnet50", 5)]
)
def test_resnet_downloads_the_protocol_s_weights_and_reuses_their_channels(
    name, channels, monkeypatch, tmp_path
):
    torch.manual_seed(1)
    published = torchvision.models.get_model(name)
    asked = []

    def download(url, path, *args, **kwargs):
        asked.append(url)
        torch.save(published.state_dict(), path)

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    featurizer = build(name, images(channels), weights="pretrained").featurizer.eval()
    assert asked == [torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].url]
    # The published network on three channels is ours, with each channel's share added up.
    x = torch.rand(2, channels, 64, 64)
    as_three = torch.zeros(2, 3, 64, 64)
    for channel in range(channels):
        as_three[:, channel % 3] += x[:, channel]
    if channels == 3:  # and pictures are normalised, which the published network leaves to us
        weights = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"]
        published_view = weights.transforms()
        as_three = normalize(as_three, published_view.mean, published_view.std)
    published.fc = nn.Identity()
    with torch.no_grad():
        ours, theirs = featurizer(x), published.eval()(as_three)
    torch.testing.assert_close(ours, theirs, atol=1e-5 * theirs.abs().max().item(), rtol=1e-4)


# --- training ---------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["erm", "idm", "arm"])
@pytest.mark.parametrize(
    ("backbone", "weights"),
    [
        ("resnet18", "random"),
        pytest.param("tf_efficientnet_lite0", str(EFFICIENTNET), marks=needs_efficientnet),
    ],
)
def test_two_steps_of_training(algorithm, backbone, weights, tmp_path):
    given = {"weights": weights, "batch_size": 4}
    if algorithm == "idm":
        given["gradient_warmup"] = 1
    config = configure(
        data_of(), algorithm, test_domains=["photo"], backbone=backbone, hparams=given,
        steps=2, evaluate=["test-in"], device="cpu",
    )  # fmt: skip
    before = build_algorithm(config, config.task(data_of())).state_dict()
    result = train(config, data_of(), tmp_path)
    assert result.status == "finished"
    assert 0 <= result.final["accuracy"]["photo/in"] <= 1
    after = load_file(tmp_path / "checkpoint.safetensors")
    first = next(k for k in before if k.endswith(("conv1.weight", "conv_stem.weight")))
    moved = next(v for k, v in after.items() if k.endswith(f"modules/{first}"))
    assert not torch.equal(moved, before[first])


@needs_efficientnet
def test_features_of_the_loaded_network_are_timm_s_own():
    ours = build("tf_efficientnet_lite0", images(), weights=str(EFFICIENTNET)).featurizer.eval()
    theirs = timm.create_model("tf_efficientnet_lite0", checkpoint_path=str(EFFICIENTNET)).eval()
    x = torch.rand(2, 3, 64, 64)
    normalised = normalize(x, theirs.pretrained_cfg["mean"], theirs.pretrained_cfg["std"])
    assert normalised.min() < -0.99  # ×2 − 1, which is not what other networks take
    with torch.no_grad():
        expected = theirs.forward_head(theirs.forward_features(normalised), pre_logits=True)
        assert expected.std() > 0.1
        torch.testing.assert_close(ours(x), expected, atol=1e-6, rtol=0)


def test_normalisation_is_no_state_and_pictures_of_other_channels_have_none():
    pictures, others = (build("resnet18", images(channels)).featurizer for channels in (3, 2))
    ours, plain = (list(featurizer.state_dict()) for featurizer in (pictures, others))
    assert [name.partition(".")[2] for name in ours] == [name.partition(".")[2] for name in plain]
    assert (len(pictures), len(others)) == (2, 1)


@needs_efficientnet
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_a_file_for_three_channels_is_adapted_as_timm_does(channels):
    ours = build("tf_efficientnet_lite0", images(channels), weights=str(EFFICIENTNET)).featurizer
    overlay = {"file": str(EFFICIENTNET)}
    theirs = timm.create_model(
        "tf_efficientnet_lite0", pretrained=True, pretrained_cfg_overlay=overlay,
        in_chans=channels, num_classes=0,
    )  # fmt: skip
    x = torch.rand(2, channels, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), atol=1e-6, rtol=0)
