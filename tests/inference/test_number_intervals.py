"""Intervals at a new domain: the promise, and what a model file keeps of errors."""

import json

import numpy as np
import pytest
from _internals import LEVELS, HalfWidths, InvalidValue, NumberOutputs, half_width


def domains(rng, count, rows=40):
    """Errors of exchangeable domains, each with a mean and a spread of its own."""
    found = []
    for _ in range(count):
        n = int(rng.integers(rows // 2, 2 * rows))
        errors = rng.standard_normal() + np.exp(0.5 * rng.standard_normal()) * rng.standard_t(4, n)
        found.append(NumberOutputs(np.zeros(n), errors, np.arange(n)))
    return found


def errors_of(outputs):
    return [np.abs(own.labels - own.predicted) for own in outputs]


@pytest.mark.parametrize("stored", [False, True])
def test_intervals_hold_a_new_domain_as_promised(stored):
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        *known, new = domains(rng, 31)
        width = half_width(known, 0.9)
        if stored:
            width = HalfWidths.of(errors_of(known)).half_width(0.9)
        assert width.promised
        shares.append((np.abs(new.labels) <= width.half).mean())
    assert np.mean(shares) > 0.9 - 2 * np.std(shares) / 20
    assert np.mean(shares) < 0.95


def test_too_few_domains_promise_nothing():
    known = domains(np.random.default_rng(1), 8)
    assert not half_width(known, 0.9).promised
    assert half_width(known, 0.8).promised
    stored = HalfWidths.of(errors_of(known))
    assert not stored.half_width(0.9).promised
    assert stored.half_width(0.8).promised


def test_a_file_keeps_no_single_error_and_little_more_width():
    known = domains(np.random.default_rng(2), 20)
    errors = errors_of(known)
    stored = HalfWidths.of(errors)
    every = np.concatenate(errors)
    for level, width in zip(LEVELS, stored.widths, strict=True):
        assert np.abs(every - width.half).min() > 0
        assert len(f"{width.half:.10g}".replace(".", "").strip("0")) <= 3
        if width.promised:
            assert width.half >= half_width(known, level).half
    assert stored.half_width(0.85) == stored.half_width(0.9)


def test_one_row_changes_no_width_by_much():
    errors = errors_of(domains(np.random.default_rng(3), 12))
    before = HalfWidths.of(errors)
    errors[0] = np.append(errors[0], 1e6)
    after = HalfWidths.of(errors)
    for level in (0.5, 0.6, 0.7, 0.8):
        assert after.half_width(level).half == pytest.approx(before.half_width(level).half, rel=0.1)


def test_they_survive_json():
    stored = HalfWidths.of(errors_of(domains(np.random.default_rng(4), 10)))
    again = HalfWidths.from_json(json.loads(json.dumps(stored.to_json())))
    assert again == stored


@pytest.mark.parametrize(
    "damaged", [[], [[1.0, True]], [[-1.0, True]] * 7, [[float("nan"), True]] * 7]
)
def test_damaged_widths_are_refused(damaged):
    with pytest.raises(ValueError, match="damaged"):
        HalfWidths.from_json(damaged)


def test_mistakes_are_told():
    known = domains(np.random.default_rng(5), 3)
    with pytest.raises(InvalidValue, match="`interval` must be between 0 and 1, not 90"):
        half_width(known, 90)
    with pytest.raises(InvalidValue, match=r"at most 0\.99, not 0\.999"):
        HalfWidths.of(errors_of(known)).half_width(0.999)
    assert HalfWidths.of([np.ones(4), np.ones(5)]) is None
