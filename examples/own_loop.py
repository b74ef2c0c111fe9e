"""Your own training loop: add IDM's penalty to the loss of a network of yours.

python examples/own_loop.py
"""

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof import InterDomainMatching

torch.manual_seed(0)


def patients(trust: float, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two measurements: the blood is right for 75% of the patients, the scanner as `trust` says."""
    ill = torch.randint(2, (count,))
    columns = []
    for share in (0.75, trust):
        is_right = torch.rand(count) < share
        columns.append(2.0 * torch.where(is_right, ill, 1 - ill) - 1 + 0.3 * torch.randn(count))
    return torch.stack(columns, dim=1), ill


# Two hospitals to train on.  In the third, the scanner is nearly always wrong.
(x1, y1), (x2, y2) = patients(0.9, 4000), patients(0.8, 4000)
x, y = torch.cat([x1, x2]), torch.cat([y1, y2])
hospital = torch.tensor([17, 23]).repeat_interleave(4000)
new_x, new_y = patients(0.1, 4000)


def accuracy_after_training(matching: InterDomainMatching | None) -> float:
    """Train a small network, and return its accuracy in the third hospital."""
    torch.manual_seed(1)
    body, head = nn.Sequential(nn.Linear(2, 32), nn.ReLU()), nn.Linear(32, 2)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=3e-3)
    for _ in range(300):
        batch = torch.randint(len(x), (256,))
        features = body(x[batch])
        logits = head(features)
        loss = F.cross_entropy(logits, y[batch])
        if matching is not None:  # the only new lines
            loss = loss + matching(features, logits, y[batch], hospital[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (head(body(new_x)).argmax(dim=1) == new_y).float().mean().item()


without = accuracy_after_training(None)
# The warm-up is a third of the steps; the default, 1500, is for 5000 steps.
with_it = accuracy_after_training(InterDomainMatching(gradient_weight=1000, gradient_warmup=100))
print(f"accuracy in the new hospital: {without:.0%} without matching, {with_it:.0%} with it")
assert without < 0.4 < 0.65 < with_it
