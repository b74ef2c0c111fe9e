"""Buffers without a shape until data comes: saved, loaded over others, and forgotten."""

from __future__ import annotations

import torch
from _internals import LateBuffers
from torch import Tensor, nn


class Two(LateBuffers):
    late = ("first", "second")
    first: Tensor | None
    second: Tensor | None


def test_what_is_not_there_yet_is_not_saved() -> None:
    module = Two()
    assert module.first is None
    assert not module.state_dict()
    module.first = torch.ones(3)
    assert list(module.state_dict()) == ["first"]


def test_a_state_is_loaded_in_any_shape_and_copied() -> None:
    source, target = nn.Sequential(Two()), nn.Sequential(Two())
    source[0].first = torch.ones(2, 3)
    target[0].first = torch.zeros(5)
    target[0].second = torch.zeros(5)
    target.load_state_dict(source.state_dict())
    assert torch.equal(target[0].first, torch.ones(2, 3))
    assert target[0].second is None
    source[0].first.zero_()
    assert target[0].first.sum() == 6
