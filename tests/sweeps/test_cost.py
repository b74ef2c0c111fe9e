import time

import pytest

from shiftproof.learners.algorithms.erm import ERM
from shiftproof.sweeps import cost


def test_a_step_twice_as_long_costs_twice(monkeypatch):
    """Time is ours here: ERM takes 1 ms, and IDM 3 ms."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def update(self, batch):
        now[0] += 0.001 if type(self) is ERM else 0.003
        return {}

    monkeypatch.setattr(ERM, "update", update)
    assert cost.relative_cost("idm") == pytest.approx(3)
    assert cost.relative_cost("erm") == pytest.approx(1)


def test_every_penalty_acts_while_it_is_measured():
    algorithm = cost._build("idm")
    assert algorithm.updates > algorithm.hparams.gradient_warmup
