import json

import pytest
import torch
from _internals import DataError, InvalidValue, RunConfig, UnknownName, configure, specs

from shiftproof import ALGORITHMS, Domain, DomainDataset
from shiftproof.models import MODELS


@pytest.fixture
def dataset():
    generator = torch.Generator().manual_seed(0)
    domains = tuple(
        Domain(name, torch.randn(20, 4, generator=generator), torch.arange(20) % 3)
        for name in ("north", "east", "south")
    )
    return DomainDataset("toy", domains, ("a", "b", "c"), "table", "mlp", 10)


def test_everything_is_filled_in(dataset):
    config = configure(dataset, "idm", test_domains=["east"], hparams={"lr": "0.5", "hidden": 8})
    assert config.hparams["lr"] == 0.5
    assert config.hparams["hidden"] == 8
    assert config.hparams["gradient_weight"] == 1e3
    assert (config.backbone, config.eval_every, config.device) == ("mlp", 10, "cpu")
    task = config.task(dataset)
    assert (task.num_domains, task.num_classes, task.input_shape) == (2, 3, (4,))
    assert config.model(dataset.regime).hidden == 8
    assert config.algorithm_hparams(dataset.regime).lr == 0.5


def test_json_round_trip(dataset):
    config = configure(dataset, "erm", test_domains=["south"])
    again = RunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert again.run_id == config.run_id


def test_a_configuration_from_before_averaging_is_one_without(dataset):
    config = configure(dataset, "erm", average="none")
    assert "average" not in config.to_json()
    assert RunConfig.from_json(config.to_json()).average == "none"
    averaged = configure(dataset, "erm", average="swad")
    assert RunConfig.from_json(averaged.to_json()) == averaged


def test_the_id_follows_the_content(dataset):
    ids = {
        configure(dataset, "erm", **change).run_id
        for change in [
            {}, {"seed": 1}, {"data_seed": 1}, {"steps": 3}, {"holdout": 0.1},
            {"test_domains": ["east"]}, {"hparams": {"lr": 0.1}}, {"precision": "bf16"},
            {"evaluate": ["train-in"]}, {"eval_every": 3}, {"average": "ema"}, {"average": "swad"},
        ]
    }  # fmt: skip
    assert len(ids) == 12
    assert configure(dataset, "erm").run_id == configure(dataset, "erm", hparams={}).run_id


def test_order_of_test_domains_does_not_matter(dataset):
    four = DomainDataset(
        "toy", (*dataset.domains, Domain("west", torch.zeros(4, 4), torch.zeros(4).long())),
        dataset.classes, "table", "mlp", 10,
    )  # fmt: skip
    first, second = (
        configure(four, "erm", test_domains=t) for t in (["east", "west"], ["west", "east"])
    )
    assert first == second


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"algorithm": "emr"}, UnknownName, "did you mean 'erm'"),
        ({"backbone": "mpl"}, UnknownName, "did you mean 'mlp'"),
        ({"test_domains": ["nroth"]}, UnknownName, "did you mean 'north'"),
        ({"test_domains": ["north", "east"]}, DataError, "1 left.*at least two"),
        ({"hparams": {"learning_rate": 1}}, UnknownName, "hyper-parameter of erm on mlp"),
        ({"hparams": {"hiden": 1}}, UnknownName, "did you mean 'hidden'"),
        ({"hparams": {"lr": "fast"}}, InvalidValue, "`lr` must be a finite number, not 'fast'"),
        ({"evaluate": ["test"]}, UnknownName, "did you mean 'test-"),
        ({"precision": "fp16"}, UnknownName, "precision 'fp16'.*'bf16'"),
        ({"steps": 0}, InvalidValue, "`steps` must be at least 1"),
        ({"holdout": 1.0}, InvalidValue, "`holdout` must lie in"),
        ({"holdout": float("nan")}, InvalidValue, "`holdout` must be a finite number"),
        ({"eval_every": -1}, InvalidValue, "eval_every"),
        ({"device": "gpu"}, UnknownName, "device 'gpu'"),
        ({"average": "eam"}, UnknownName, "average 'eam'; did you mean 'ema'"),
        ({"average": "mean"}, UnknownName, "average 'mean'"),
        ({"average": "swad", "evaluate": ["test-out"]}, InvalidValue, "`evaluate` must include it"),
        ({"average": "swad", "eval_every": 0}, InvalidValue, r"`eval_every` .* \(now: 0\)"),
    ],
)
def test_mistakes_are_named(dataset, change, error, words):
    with pytest.raises(error, match=words):
        configure(dataset, **{"algorithm": "erm", **change})


@pytest.mark.parametrize("average", ["none", "ema", "swad", "best"])
def test_weights_are_not_averaged_twice(dataset, average):
    """WiSE-FT interpolates between two sets of weights, which may be averages."""
    assert configure(dataset, "wise-ft", average=average).average == average
    if average in ("none", "best"):
        assert configure(dataset, "erm-plus-plus", average=average).average == average
    else:
        with pytest.raises(InvalidValue, match=rf"leave out `average` \(now: {average}\)"):
            configure(dataset, "erm-plus-plus", average=average)


def test_no_algorithm_and_model_share_a_hyperparameter_name():
    for algorithm in map(ALGORITHMS.get, ALGORITHMS):
        for model in map(MODELS.get, MODELS):
            assert not specs(algorithm.Hparams).keys() & specs(model).keys()


# --- starting weights -------------------------------------------------------------------------


@pytest.fixture
def images():
    domains = tuple(Domain(n, torch.zeros(4, 3, 32, 32), torch.arange(4) % 2) for n in "abc")
    return DomainDataset("toy", domains, ("x", "y"), "large-image", "resnet18", 10)


@pytest.fixture
def weights(tmp_path):
    """Return a function that writes a ResNet-18 of some seed somewhere."""

    def write(name, seed=0):
        import torchvision
        from safetensors.torch import save_file

        torch.manual_seed(seed)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        save_file(torchvision.models.resnet18(num_classes=3).state_dict(), path)
        return str(path)

    return write


def test_a_run_depends_on_the_content_of_its_weights_and_not_on_their_place(images, weights):
    here, there, other = (
        configure(images, "erm", hparams={"weights": path})
        for path in (weights("a/one"), weights("b/two.bin"), weights("other", seed=1))
    )
    assert here == there
    assert here.run_id == there.run_id
    assert other.run_id != here.run_id
    assert here.hparams["weights"].startswith("sha256:")
    written = json.dumps(here.to_json())
    assert "a/one" not in written
    assert "weights_file" not in written
    assert RunConfig.from_json(json.loads(written)) == here
    named = (configure(images, "erm", hparams={"weights": w}) for w in ("random", "pretrained"))
    assert len({here.run_id, *(config.run_id for config in named)}) == 3


def test_the_model_of_a_run_starts_from_the_file(images, weights, monkeypatch, tmp_path):
    from safetensors.torch import load_file

    path = weights("a/one", seed=3)
    monkeypatch.chdir(tmp_path / "a")
    config = configure(images, "erm", hparams={"weights": "one"})
    monkeypatch.chdir(tmp_path)  # a relative path is one from where the run was configured
    network = config.model(images.regime).build(config.task(images)).featurizer[1]
    assert torch.equal(network.conv1.weight, load_file(path)["conv1.weight"])


def test_weights_that_changed_or_are_elsewhere_are_not_taken_for_the_run_s(images, weights):
    path = weights("one")
    config = configure(images, "erm", hparams={"weights": path})
    weights("one", seed=1)
    with pytest.raises(InvalidValue, match="has changed since the run was configured"):
        config.model(images.regime)
    read = RunConfig.from_json(config.to_json())
    with pytest.raises(InvalidValue, match="`weights` must name a file"):
        read.model(images.regime).build(read.task(images))


def test_weights_are_for_networks_that_start_from_some(dataset):
    with pytest.raises(InvalidValue, match="mlp has no weights to start from; `weights` is for"):
        configure(dataset, "erm", hparams={"weights": "x"})


def test_timm_s_networks_are_kept_by_their_full_name(images):
    short, full = (
        configure(images, "erm", backbone=name, hparams={"weights": "random"})
        for name in ("tf_efficientnet_lite0", "tf_efficientnet_lite0.in1k")
    )
    assert short == full
    assert short.backbone == "tf_efficientnet_lite0.in1k"
