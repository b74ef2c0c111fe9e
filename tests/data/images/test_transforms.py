"""The protocol's views: kernels equal torchvision's own transforms, chance follows its law."""

import math

import numpy as np
import pytest
import torch
from _internals import evaluation_view, random_crop, to_pixels, training_view
from PIL import Image
from scipy import stats
from torchvision.transforms import v2


def picture(width=60, height=44, seed=0):
    pixels = np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width * 2, height * 2))


class Chosen:
    """A generator whose draws are told in advance."""

    def __init__(self, uniform, integers, random, permutation):
        self.draws = {"uniform": list(uniform), "integers": list(integers), "random": list(random)}
        self.order = permutation

    def uniform(self, low, high, size=None):
        if size is None:
            return self.draws["uniform"].pop(0)
        return np.array([self.draws["uniform"].pop(0) for _ in range(size)])

    def integers(self, high):
        return self.draws["integers"].pop(0)

    def random(self):
        return self.draws["random"].pop(0)

    def permutation(self, n):
        return self.order


def test_the_evaluation_view_is_the_whole_image_as_torchvision_resizes_it():
    ours = evaluation_view(picture(), 32)
    theirs = v2.Compose([v2.Resize((32, 32))])(picture())
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    assert ours.size == (32, 32)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_the_training_view_is_torchvision_s_at_the_same_draws(mirrored, grey, order):
    brightness, contrast, saturation, hue = 1.2, 0.8, 0.75, -0.2
    area, ratio = 0.81, 1.1
    image = picture()
    side = 120 * 88 * area
    w, h = round(math.sqrt(side * ratio)), round(math.sqrt(side / ratio))
    chosen = Chosen(
        uniform=[area, math.log(ratio), brightness, contrast, saturation, hue],
        integers=[3, 5],
        random=[0.4 if mirrored else 0.6, 0.05 if grey else 0.5],
        permutation=order,
    )
    ours = training_view(image, 32, chosen)
    view = v2.functional.resized_crop(image, 3, 5, h, w, [32, 32])
    jitters = [
        v2.ColorJitter(brightness=(brightness, brightness)),
        v2.ColorJitter(contrast=(contrast, contrast)),
        v2.ColorJitter(saturation=(saturation, saturation)),
        v2.ColorJitter(hue=(hue, hue)),
    ]
    steps = [
        v2.RandomHorizontalFlip(float(mirrored)),
        *(jitters[k] for k in order),
        v2.RandomGrayscale(float(grey)),
    ]
    theirs = v2.Compose(steps)(view)
    assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    assert not any(chosen.draws.values())


def test_crops_follow_the_law_of_torchvision_s():
    """Two-sample Kolmogorov–Smirnov against RandomResizedCrop's own draws: no difference seen."""
    rng = np.random.default_rng(0)
    ours = np.array([random_crop(90, 120, rng) for _ in range(2000)])
    transform = v2.RandomResizedCrop(32, scale=(0.7, 1.0))
    image = torch.zeros(3, 90, 120)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = [transform.make_params([image]) for _ in range(2000)]
    theirs = np.array([[d["top"], d["left"], d["height"], d["width"]] for d in drawn])
    for column in range(4):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3
    share = ours[:, 2] * ours[:, 3] / (90 * 120)
    assert 0.69 < share.min() < 0.72
    assert 0.98 < share.max() <= 1.0


@pytest.mark.parametrize(("height", "width"), [(10, 400), (400, 10), (1, 1), (1, 50), (2, 3)])
def test_a_crop_of_an_extreme_image_lies_within_it(height, width):
    rng = np.random.default_rng(1)
    for _ in range(200):
        top, left, h, w = random_crop(height, width, rng)
        assert 0 <= top <= top + h <= height
        assert 0 <= left <= left + w <= width
        assert h > 0
        assert w > 0


def test_a_strip_gives_its_middle():
    assert random_crop(10, 400, np.random.default_rng(0)) == (0, 193, 10, 13)


def test_the_chance_of_mirroring_and_of_grey_is_the_protocol_s():
    left = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8)[None, :, None] * 3, (64, 1, 3)))
    coloured = Image.fromarray(np.tile(np.array([200, 40, 90], np.uint8), (16, 16, 1)))
    mirrored = grey = 0
    for seed in range(600):
        view = np.asarray(training_view(left, 16, np.random.default_rng(seed))).astype(int)
        mirrored += view[:, :4].mean() > view[:, -4:].mean()
        tint = np.asarray(training_view(coloured, 8, np.random.default_rng(seed))).astype(int)
        grey += np.ptp(tint, axis=2).max() == 0
    assert abs(mirrored - 300) < 5 * math.sqrt(150)
    assert abs(grey - 60) < 5 * math.sqrt(54)


def test_a_view_is_a_function_of_its_seed_and_leaves_torch_s_chance_alone():
    before = torch.get_rng_state()
    one, same, other = (training_view(picture(), 24, np.random.default_rng(s)) for s in (1, 1, 2))
    assert torch.equal(to_pixels(one), to_pixels(same))
    assert not torch.equal(to_pixels(one), to_pixels(other))
    assert torch.equal(before, torch.get_rng_state())


def test_pixels_are_channels_first():
    pixels = to_pixels(Image.new("RGB", (5, 4), (10, 20, 30)))
    assert pixels.shape == (3, 4, 5)
    assert pixels.dtype == torch.uint8
    assert pixels[:, 0, 0].tolist() == [10, 20, 30]
