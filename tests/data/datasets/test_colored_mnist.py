import numpy as np
import pytest
import torch
from _internals import AGREEMENT, ColoredMNIST, ColoredMNISTForIRM, load_mnist

from shiftproof import DATASETS


def colours(domain):
    """Return the channel that holds each image."""
    return (domain.x[:, 1].flatten(1).amax(1) > 0).long()


@pytest.fixture(scope="module", params=["colored-mnist", "colored-mnist-irm"])
def dataset(request):
    return DATASETS.get(request.param)().load(seed=3)


def test_counts_shapes_and_classes_are_those_of_the_card(dataset):
    card = DATASETS.get(dataset.name).card
    assert {d.name: len(d) for d in dataset.domains} == card.counts
    assert dataset.input_shape == card.input_shape
    assert all(
        d.x.dtype == torch.uint8 and d.y.unique().tolist() == [0, 1] for d in dataset.domains
    )


def test_colour_agrees_with_the_label_at_the_stated_rate(dataset):
    for domain in dataset.domains:
        rate = (colours(domain) == domain.y).double().mean().item()
        sigma = 0.5 / len(domain) ** 0.5
        assert rate == pytest.approx(AGREEMENT[domain.name], abs=4 * sigma)


def test_one_label_in_four_is_wrong_and_colour_knows_nothing_else_of_the_digit():
    dataset = ColoredMNISTForIRM().load(seed=0)
    digits = load_mnist().labels[50_000:60_000]
    reversed_domain = dataset.domains[2]
    clean = (digits < 5).long()
    assert (clean == reversed_domain.y).double().mean().item() == pytest.approx(0.75, abs=0.02)
    # Given the noisy label, colour is independent of whether the label was flipped.
    agree = colours(reversed_domain) == reversed_domain.y
    flipped = clean != reversed_domain.y
    rates = [agree[flipped].double().mean().item(), agree[~flipped].double().mean().item()]
    assert rates[0] == pytest.approx(rates[1], abs=0.03)


def test_domainbed_form_deals_every_digit_exactly_once():
    dataset = ColoredMNIST().load(seed=1)
    ours = torch.cat([d.x.amax(1).flatten(1).sum(1, dtype=torch.int64) for d in dataset.domains])
    theirs = load_mnist().images.flatten(1).sum(1, dtype=torch.int64)
    assert torch.equal(ours.sort().values, theirs.sort().values)


def test_irm_form_takes_every_other_pixel_of_the_digits_it_says():
    dataset = ColoredMNISTForIRM().load(seed=2)
    images = load_mnist().images[:, ::2, ::2]
    assert torch.equal(dataset.domains[2].x.amax(1), images[50_000:60_000])
    training = torch.cat([d.x.amax(1) for d in dataset.domains[:2]])
    order = np.lexsort(training.flatten(1).numpy().T)
    expected = images[:50_000].flatten(1).numpy()
    assert np.array_equal(training.flatten(1).numpy()[order], expected[np.lexsort(expected.T)])


def test_gray_shows_the_reversed_digits_in_both_channels():
    dataset = ColoredMNISTForIRM().load(seed=0)
    gray, reversed_domain = dataset.extras[0], dataset.domains[2]
    assert gray.name == "gray"
    assert torch.equal(gray.x[:, 0], gray.x[:, 1])
    assert torch.equal(gray.x[:, 0], reversed_domain.x.amax(1))
    assert torch.equal(gray.y, reversed_domain.y)


def test_only_the_seed_decides():
    first, again, other = (ColoredMNISTForIRM(per_domain=500).load(s) for s in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert [len(d) for d in first.domains] == [500] * 3


def test_inputs_are_numbers_between_zero_and_one():
    domain = ColoredMNISTForIRM(per_domain=50).load(0).domains[0]
    x = domain.inputs(np.arange(50))
    assert x.dtype == torch.float32
    assert torch.equal((x * 255).round().to(torch.uint8), domain.x)
