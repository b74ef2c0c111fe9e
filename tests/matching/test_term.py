"""When a term of IDM tracks and when it acts, in both variants; and what it asks for."""

from __future__ import annotations

import pytest
import torch
from _internals import MatchingTerm, MatchInputs, linear_head_gradients


def inputs(seed: int = 0, asked: list[str] | None = None) -> MatchInputs:
    generator = torch.Generator().manual_seed(seed)
    r, e = (torch.randn(2, 5, k, generator=generator).requires_grad_() for k in (3, 2))

    def compute() -> torch.Tensor:
        if asked is not None:
            asked.append("gradients")
        return linear_head_gradients(r, e)

    labels = torch.zeros(2, 5, dtype=torch.long)
    return MatchInputs(r, labels, 2, compute)


@pytest.mark.parametrize(
    ("variant", "gamma", "acts", "tracks"),
    [
        ("authors", 0.9, [3, 4], [0, 1, 2, 3, 4]),
        ("authors", 0.0, [3, 4], [3, 4]),
        ("paper", 0.9, [2, 3, 4], [2, 3, 4]),
        ("paper", 0.0, [2, 3, 4], [2, 3, 4]),
    ],
)
def test_the_schedule_of_both_variants(
    variant: str, gamma: float, acts: list[int], tracks: list[int]
) -> None:
    """With t = 3; steps count from 0."""
    term = MatchingTerm("representations", 1.0, 3, gamma, variant=variant)
    assert [step for step in range(5) if term.acts(step)] == acts
    assert [step for step in range(5) if term.tracks(step)] == tracks


@pytest.mark.parametrize("points", ["gradients", "representations"])
def test_before_it_acts_it_is_remembered_without_a_gradient(points) -> None:
    early, late = (MatchingTerm(points, 1.0, warmup, 0.9) for warmup in (1, 0))
    for step in range(2):
        first, second = (term(inputs(step), step) for term in (early, late))
        assert torch.equal(first, second)
        assert first.requires_grad == (step == 1)
        assert second.requires_grad


def test_gradients_are_computed_once_and_only_if_asked_for() -> None:
    asked: list[str] = []
    given = inputs(asked=asked)
    MatchingTerm("representations", 1.0, 0, 0.9)(given, 0)
    assert asked == []
    for _ in range(2):
        MatchingTerm("gradients", 1.0, 0, 0.9)(given, 0)
    assert asked == ["gradients"]
