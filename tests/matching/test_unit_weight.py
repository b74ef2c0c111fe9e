"""An automatic weight of the drop-in matching: the penalty is as large as the risk."""

import pytest
import torch
import torch.nn.functional as F
from _internals import InvalidValue

from shiftproof import InterDomainMatching

AUTO = {"gradient_warmup": 0, "gradient_ema": 0.0, "representation_weight": 0}


def batch(scale: float = 1.0, seed: int = 0, domains: int = 3):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.arange(24) % domains
    features = scale * (torch.randn(24, 5, generator=generator) + ids[:, None])
    logits = torch.randn(24, 2, generator=generator)
    return features, logits, torch.randint(2, (24,), generator=generator), ids


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_first_penalty_is_as_large_as_the_risk(scale, order):
    features, logits, labels, ids = batch(scale)
    for weights in (("auto", 0), (0, "auto")):
        matching = InterDomainMatching(*weights, gradient_warmup=0, gradient_ema=0.0, order=order)
        found = matching(features, logits, labels, ids)
        torch.testing.assert_close(found, F.cross_entropy(logits, labels))


def test_it_is_the_first_matched_batch_that_decides():
    matching = InterDomainMatching("auto", **{**AUTO, "gradient_warmup": 1})
    assert "gradient_weight=auto, gradient_warmup=1" in repr(matching)
    matching(*batch(seed=1))
    matching(*batch(seed=2))
    fixed = matching._units["gradient"]
    assert repr(matching).startswith(f"InterDomainMatching(\n  gradient_weight=auto ({fixed:g}),")
    penalty = matching(*batch(seed=3))
    torch.testing.assert_close(penalty, fixed * matching.measured["gradient_penalty"])


def test_memory_is_cancelled():
    own, remembered = (
        InterDomainMatching("auto", **{**AUTO, "gradient_ema": gamma}) for gamma in (0.0, 0.75)
    )
    for matching in (own, remembered):
        matching(*batch())
    assert remembered._units["gradient"] == pytest.approx(0.25 * own._units["gradient"])


def test_a_batch_of_one_domain_decides_nothing():
    matching = InterDomainMatching("auto", **AUTO)
    assert matching(*batch(domains=1)) == 0
    assert matching._units == {}
    assert matching(*batch()) > 0


def test_measuring_decides_nothing():
    matching = InterDomainMatching("auto", **AUTO).eval()
    assert matching(*batch()) > 0
    assert matching._units == {}


def test_the_weight_is_saved():
    matching, again = (InterDomainMatching("auto", **AUTO) for _ in range(2))
    matching(*batch())
    again.load_state_dict(matching.state_dict())
    assert again(*batch(seed=5)) == matching(*batch(seed=5))
    plain = InterDomainMatching(1.0, **AUTO)
    assert plain.get_extra_state() == {"steps": 0}  # as before


def test_other_words_are_refused():
    with pytest.raises(InvalidValue, match="must be a number from 0 up or 'auto'"):
        InterDomainMatching("much")
