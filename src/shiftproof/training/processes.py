"""The processes of a run that `torchrun` started; without it there is one, and torch is not needed.

`training.shared_batches` divides the work among them.
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta

# Timeout for waiting for other processes, which may be evaluating or reading images.
PATIENCE = timedelta(hours=2)


def several() -> bool:
    """Return whether `torchrun` has started several processes."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def join(device: str) -> None:
    """Join the processes that `torchrun` has started, if any; each gets its own device."""
    if not several():
        return
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    on_cuda = device.startswith("cuda")
    if on_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if on_cuda else "gloo", timeout=PATIENCE)
    atexit.register(dist.destroy_process_group)


def count() -> int:
    """Return the number of processes of the run."""
    if not several():
        return 1
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process, from 0."""
    if count() == 1:
        return 0
    import torch.distributed as dist

    return dist.get_rank()


def leads() -> bool:
    """Return whether this process writes the files."""
    return rank() == 0


def wait() -> None:
    """Wait until all processes have reached this call."""
    if count() > 1:
        import torch.distributed as dist

        dist.barrier()


def any_asks(asked: bool, device: str) -> bool:
    """Return whether any process has been asked to stop; all get the same answer."""
    if count() == 1:
        return asked
    import torch
    import torch.distributed as dist

    flag = torch.tensor([float(asked)], device=device)
    dist.all_reduce(flag)
    return bool(flag.item())
