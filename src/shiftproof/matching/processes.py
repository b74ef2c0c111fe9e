"""Join the batches of several processes (`torch.distributed`)."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


def process_count() -> int:
    """Return the number of processes that train together; 1 without `torch.distributed`."""
    in_use = dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if in_use else 1


def join(features: Tensor, logits: Tensor, labels: Tensor, domains: Tensor) -> Batch:
    """Return the samples of all processes, in order of rank; batch sizes may differ.

    Every process computes the same penalty of the joined batch, and its gradient with respect to
    its own samples.  DistributedDataParallel averages these gradients, which should be summed, so
    they are multiplied by the number of processes here.  Nothing is sent in the backward pass.
    """
    points = torch.cat([features, logits], dim=1)
    codes = torch.stack([labels.to(points.device), domains.to(points.device)], dim=1).long()
    own_size = torch.tensor([len(points)], device=points.device)
    sizes = [int(size) for size in torch.cat(_gather(own_size))]
    all_points = [part[:size] for part, size in zip(_gather(points, sizes), sizes, strict=True)]
    all_codes = [part[:size] for part, size in zip(_gather(codes, sizes), sizes, strict=True)]
    if points.requires_grad:
        count = len(sizes)
        points.register_hook(lambda gradient: count * gradient)  # type: ignore[no-untyped-call]
        all_points[dist.get_rank()] = points
    width = features.shape[1]
    joined, codes = torch.cat(all_points), torch.cat(all_codes)
    return joined[:, :width], joined[:, width:], codes[:, 0], codes[:, 1]


def _gather(x: Tensor, sizes: list[int] | None = None) -> list[Tensor]:
    """Gather x from every process, padded with zeros to the largest size."""
    x = x.detach()
    if sizes is not None:
        x = torch.cat([x, x.new_zeros(max(sizes) - len(x), *x.shape[1:])])
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return parts
