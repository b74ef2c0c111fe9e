import pytest
import torch
from _internals import InvalidValue, resolve, specs
from torch import nn

from shiftproof import Task
from shiftproof.models import MODELS

IMAGES = Task((2, 28, 28), num_classes=2, num_domains=2, regime="small-image")
TABLE = Task((7,), num_classes=5, num_domains=3, regime="table")


def build(name, task, **given):
    torch.manual_seed(0)
    model = MODELS.get(name)
    if "weights" in specs(model):
        given["weights"] = "random"  # nothing is downloaded in tests
    return resolve(model, task.regime, given).build(task)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("nonlinear", [False, True])
def test_a_network_maps_inputs_to_one_logit_a_class(name, nonlinear):
    featurizer, head = build(name, IMAGES, nonlinear_head=nonlinear, dropout=0.1)
    features = featurizer(torch.rand(5, *IMAGES.input_shape))
    assert features.ndim == 2
    assert head(features).shape == (5, 2)
    assert isinstance(head, nn.Linear) != nonlinear


def test_mnist_cnn_is_the_published_one():
    featurizer, head = build("mnist-cnn", IMAGES)
    count = sum(p.numel() for p in featurizer.parameters())
    convolutions = (2 * 64 + 64 * 128 + 2 * 128 * 128) * 9 + 64 + 3 * 128
    norms = 2 * (64 + 3 * 128)
    assert count == convolutions + norms
    assert sum(p.numel() for p in head.parameters()) == 2 * 128 + 2
    x = torch.rand(3, 2, 28, 28)
    kinds = [type(layer) for layer in featurizer][:3]
    assert kinds == [nn.Conv2d, nn.ReLU, nn.GroupNorm]
    before_pooling = featurizer[:12](x)
    assert before_pooling.shape == (3, 128, 14, 14)
    assert torch.allclose(featurizer(x), before_pooling.mean(dim=(2, 3)), atol=1e-6)


def test_mnist_cnn_refuses_tables():
    with pytest.raises(InvalidValue, match='`backbone="mlp"`'):
        build("mnist-cnn", TABLE)


def test_mlp_has_the_asked_width_and_depth_and_xavier_weights():
    featurizer, head = build("mlp", TABLE, hidden=11, depth=3)
    linears = [layer for layer in featurizer if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linears] == [
        (7, 11), (11, 11), (11, 11),
    ]  # fmt: skip
    assert (head.in_features, head.out_features) == (11, 5)
    for layer in [*linears, head]:
        assert not layer.bias.any()
        limit = (6 / (layer.in_features + layer.out_features)) ** 0.5
        assert 0.5 * limit < layer.weight.abs().max() <= limit


def test_a_single_logit_needs_two_classes():
    assert build("mlp", IMAGES, single_logit=True).head.out_features == 1
    with pytest.raises(InvalidValue, match="two classes, but there are 5"):
        build("mlp", TABLE, single_logit=True)
