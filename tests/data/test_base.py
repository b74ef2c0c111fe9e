import numpy as np
import pytest
import torch
from _internals import DataError, UnknownName

from shiftproof import Domain, DomainDataset


def dataset(*domains, extras=()):
    return DomainDataset("toy", domains, ("a", "b"), "table", "mlp", 10, extras)


def domain(name="one", n=4):
    return Domain(name, torch.arange(3.0 * n).view(n, 3), torch.arange(n) % 2)


def test_mistakes_in_a_domain_are_named():
    with pytest.raises(DataError, match="'x' has 2 samples but 3 labels"):
        Domain("x", torch.zeros(2, 1), torch.zeros(3))
    with pytest.raises(DataError, match="'x' is empty"):
        Domain("x", torch.zeros(0, 1), torch.zeros(0))
    with pytest.raises(DataError, match="two domains of the same name"):
        dataset(domain(), domain())


def test_moving_a_dataset_moves_inputs_labels_and_weights():
    weighted = domain("two").having(weight=np.ones(4))
    moved = dataset(domain("one"), weighted).to(torch.device("meta"))
    for own in moved.domains:
        tensors = [own.x, own.y, *([] if own.weight is None else [own.weight])]
        assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert [own.weight is None for own in moved.domains] == [True, False]


def test_an_unknown_domain_gets_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'hospital'"):
        dataset(domain("hospital"), domain("clinic")).index_of("hopsital")


def test_the_fingerprint_is_that_of_the_content():
    base = dataset(domain("one"), domain("two"))
    assert base.fingerprint == dataset(domain("one"), domain("two")).fingerprint
    changed = domain("two")
    changed.x[3, 2] += 1
    relabelled = domain("two")
    relabelled.y[0] = 1
    others = [
        dataset(domain("one"), changed),
        dataset(domain("one"), relabelled),
        dataset(domain("one"), domain("deux")),
        dataset(domain("two"), domain("one")),
        dataset(domain("one"), domain("two"), extras=(domain("three"),)),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 6
