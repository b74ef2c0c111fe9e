"""Every mistake of a loop is one line that says what to do."""

from __future__ import annotations

import pytest
import torch
from _internals import InvalidValue

from shiftproof import InterDomainMatching

NAN = float("nan")


def batch() -> dict[str, object]:
    torch.manual_seed(0)
    return {
        "features": torch.randn(6, 3),
        "logits": torch.randn(6, 2),
        "labels": torch.tensor([0, 1, 0, 1, 0, 1]),
        "domains": torch.tensor([0, 0, 0, 1, 1, 1]),
    }


MISTAKES = {
    "an image": ({"features": torch.randn(6, 3, 2, 2)}, "flatten"),
    "one feature": ({"features": torch.randn(6)}, r"float32 \[6\]"),
    "whole features": ({"features": torch.ones(6, 3).long()}, r"not int64 \[6, 3\]"),
    "flat logits": ({"logits": torch.randn(6)}, "`logits` must be"),
    "no logits": ({"logits": torch.randn(6, 0)}, "at least one column"),
    "one-hot labels": ({"labels": torch.eye(6).long()}, r"argmax\(1\)"),
    "float labels": ({"labels": torch.zeros(6)}, "`labels` must be integers"),
    "bool labels": ({"labels": torch.zeros(6).bool()}, "`labels` must be integers"),
    "float domains": ({"domains": torch.zeros(6)}, "number of its domain"),
    "names": ({"domains": ["a", "b"] * 3}, "return_inverse"),
    "no domains": ({"domains": None}, "return_inverse"),
    "too few domains": ({"domains": [1, 2]}, "there are 6, 6, 6 and 2"),
    "too few labels": ({"labels": torch.zeros(5).long()}, "there are 6, 6, 5 and 6"),
    "NaN": ({"features": torch.tensor([[NAN, NAN, 1.0]] * 2 + [[1.0] * 3] * 4)}, "2 of 6 samples"),
    "infinity": ({"logits": torch.full((6, 2), torch.inf)}, "`logits` are NaN or infinite in 6"),
    "a label too large": ({"labels": torch.tensor([0, 1, 2, 1, 3, 1])}, "2 of 6 .* 0 … 1"),
    "a label too small": ({"labels": torch.tensor([0, 1, -100, 1, 0, 1])}, "1 of 6 .* from 0"),
    "a label of one logit": (
        {"logits": torch.randn(6, 1), "labels": torch.tensor([0, 1, 2, 1, 0, 1])}, "0 … 1",
    ),
}  # fmt: skip
SETTINGS = {
    "negative weight": {"gradient_weight": -1},
    "automatic": {"representation_weight": "automatic"},
    "infinite weight": {"gradient_weight": float("inf")},
    "warm-up": {"gradient_warmup": 1.5},
    "representation_warmup": {"representation_warmup": -1},
    "gamma 1": {"gradient_ema": 1.0},
    "gamma": {"representation_ema": NAN},
    "order": {"order": 3},
    "trim": {"trim": -1},
    "within": {"match_within": "domain"},
    "class and memory": {"match_within": "class", "representation_ema": 0.5},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_batch(mistake: str) -> None:
    change, says = MISTAKES[mistake]
    matching = InterDomainMatching(gradient_warmup=0)
    matching(**batch())
    with pytest.raises(InvalidValue, match=says) as error:
        matching(**(batch() | change))
    assert "\n" not in str(error.value)
    assert matching.steps == 1


@pytest.mark.parametrize("mistake", SETTINGS)
def test_a_wrong_setting(mistake: str) -> None:
    (name, *_) = SETTINGS[mistake]
    with pytest.raises(InvalidValue, match=name) as error:
        InterDomainMatching(**SETTINGS[mistake])
    assert "\n" not in str(error.value)


def test_an_empty_batch() -> None:
    empty = {name: value[:0] for name, value in batch().items()}
    with pytest.raises(InvalidValue, match="empty"):
        InterDomainMatching()(**empty)


def test_too_few_samples_to_trim() -> None:
    for gamma in (0.0, 0.9):
        matching = InterDomainMatching(gradient_warmup=0, trim=2, gradient_ema=gamma)
        with pytest.raises(InvalidValue, match="trim 2 values from each end of 3"):
            matching(**batch())


def test_another_network() -> None:
    matching = InterDomainMatching(gradient_warmup=0)
    matching(**batch())
    with pytest.raises(InvalidValue, match="had 8 dimensions in earlier calls and has 10 now"):
        matching(**(batch() | {"features": torch.randn(6, 4)}))
