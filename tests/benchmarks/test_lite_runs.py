"""The matrix products of a perceptron's step."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.lite_runs import step_products


def test_products_of_a_step_are_those_that_torch_counts() -> None:
    layers, rows = ((20, 16), (16, 16), (16, 3)), 10
    network = nn.Sequential(*(nn.Linear(*layer) for layer in layers))
    with FlopCounterMode(display=False) as counter:
        network(torch.ones(rows, 20)).sum().backward()
    assert sum(product.operations for product in step_products(layers, rows)) == (
        counter.get_total_flops()
    )
