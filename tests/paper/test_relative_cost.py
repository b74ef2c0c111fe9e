import time

import pytest
import torch
from _internals import ERM, relative_cost


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


def test_steps_are_measured_on_one_thread(monkeypatch):
    """On a busy machine, two threads that wait for each other take minutes for these steps."""
    before = torch.get_num_threads()
    seen = set()
    monkeypatch.setattr(ERM, "update", lambda self, batch: seen.add(torch.get_num_threads()))
    torch.set_num_threads(2)
    try:
        relative_cost("vrex")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {1}
