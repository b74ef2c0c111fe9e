import time

import pytest

from shiftproof.learners.algorithms.erm import ERM
from shiftproof.paper.running_time import relative_cost


def test_a_step_three_times_as_long_costs_three_times(monkeypatch):
    """The clock is ours here: ERM takes 1 ms, and IDM 3 ms once every penalty acts."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def update(self, batch):
        acts = self.updates > getattr(self.hparams, "gradient_warmup", 0)
        now[0] += 0.001 if type(self) is ERM or not acts else 0.003
        return {}

    monkeypatch.setattr(ERM, "update", update)
    assert relative_cost("idm") == pytest.approx(3)
    assert relative_cost("erm") == pytest.approx(1)
