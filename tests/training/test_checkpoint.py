import os
import pickle

import pytest
import torch
from _internals import CheckpointError, DataError, load_state, save_state
from safetensors.torch import save_file

STATE = {
    "step": 7,
    "nothing": None,
    "flag": True,
    "rate": 0.1 + 0.2,
    "name": "ψ",
    "tensors": {
        0: torch.arange(3),
        1: {"step": torch.tensor(2.0), "half": torch.ones(2).bfloat16()},
    },
    "groups": [{"betas": (0.9, 0.999), "params": [0, 1]}],
    "empty": {"dict": {}, "list": [], "tensor": torch.zeros(0, 4)},
}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) and a.dtype == b.dtype
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b and type(a) is type(b)


def test_nested_state_comes_back_as_it_was(tmp_path):
    save_state(tmp_path / "c", STATE)
    assert same(STATE, load_state(tmp_path / "c"))


def test_tensors_that_share_memory_come_back_apart(tmp_path):
    base = torch.arange(4.0)
    save_state(tmp_path / "c", {"whole": base, "view": base[1:], "turned": base.view(2, 2).T})
    loaded = load_state(tmp_path / "c")
    assert torch.equal(loaded["view"], base[1:])
    assert torch.equal(loaded["turned"], base.view(2, 2).T)


def test_an_optimiser_survives_the_trip(tmp_path):
    weight = torch.nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight], lr=0.1)
    weight.sum().backward()
    adam.step()
    save_state(tmp_path / "c", adam.state_dict())
    fresh = torch.optim.Adam([weight], lr=0.5)
    fresh.load_state_dict(load_state(tmp_path / "c"))
    assert same(fresh.state_dict()["state"], adam.state_dict()["state"])
    assert fresh.param_groups[0]["lr"] == 0.1


def test_what_is_not_data_is_refused(tmp_path):
    with pytest.raises(TypeError, match="cannot hold object at /a/0"):
        save_state(tmp_path / "c", {"a": [object()]})


def test_nothing_is_none(tmp_path):
    assert load_state(tmp_path / "absent") is None


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", pickle.dumps({"a": 1})])
def test_an_unreadable_checkpoint_is_one_line(tmp_path, content):
    (tmp_path / "c").write_bytes(content)
    with pytest.raises(CheckpointError, match="delete it to start over") as caught:
        load_state(tmp_path / "c")
    assert "\n" not in str(caught.value)


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "c")
    with pytest.raises(DataError, match="reads only newer files"):
        load_state(tmp_path / "c")


def test_a_pickle_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    (tmp_path / "c").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(CheckpointError):
        load_state(tmp_path / "c")
    assert not (tmp_path / "ran").exists()
