"""One of two processes that train together; test_surroundings.py is the other one.

Usage: two_processes.py RANK FOLDER.  Reads nothing, meets the other one in FOLDER, and leaves there
RANK.pt: the penalty and the averaged gradients of each step.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from shiftproof import InterDomainMatching

STEPS = 3
# How many samples of each step the first process has; the second has the others.
FIRST_SIZES, TOTAL = (7, 4, 0), 12
SETTINGS = {"gradient_weight": 20.0, "gradient_warmup": 0, "representation_ema": 0.5}


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(5, 4), nn.Tanh()).double()
        self.head = nn.Linear(4, 3).double()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return features, self.head(features)


def batch_of(step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels and domains; the first process never sees domain 8 in the first step."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(TOTAL, 5, dtype=torch.float64, generator=generator)
    labels = torch.randint(3, (TOTAL,), generator=generator)
    domains = torch.tensor([3, 3, 3, 5, 5, 5, 5, 8, 8, 3, 8, 8])
    return x + domains[:, None] / 4, labels, domains


def train(
    network: nn.Module, matching: InterDomainMatching, part: list[slice], risk_share: list[float]
) -> list[dict[str, Tensor]]:
    """Return the penalty and the parameters' gradients of each step, on a part of each batch."""
    records = []
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    for step in range(STEPS):
        x, labels, domains = (each[part[step]] for each in batch_of(step))
        features, logits = network(x)
        penalty = matching(features, logits, labels, domains)
        risk = risk_share[step] * F.cross_entropy(logits, labels, reduction="sum") / TOTAL
        optimizer.zero_grad()
        (risk + penalty).backward()
        grads = {f"grad {i}": p.grad.clone() for i, p in enumerate(network.parameters())}
        records.append({"penalty": penalty.detach(), **grads})
        optimizer.step()
    return records


def main(rank: int, folder: Path) -> None:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=120),
    )
    network = DistributedDataParallel(Network())
    part = [slice(size) if rank == 0 else slice(size, None) for size in FIRST_SIZES]
    matching = InterDomainMatching(**SETTINGS)
    records = train(network, matching, part, risk_share=[2.0] * STEPS)
    matching.eval()
    if rank == 0:  # would wait for ever if it spoke to the other process
        x, labels, domains = batch_of(0)
        matching(*network.module(x), labels, domains)
    torch.save({"records": records, "state": matching.state_dict()}, folder / f"{rank}.pt")
    # Both processes are done, and nothing uses the group, before its threads end.
    del network
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
