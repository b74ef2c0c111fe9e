import pytest
import torch
from _internals import ROOM, DeviceSeries


@pytest.mark.parametrize("count", [0, 1, ROOM - 1, ROOM, ROOM + 1, 3 * ROOM + 5])
def test_a_series_is_the_stack_of_what_was_appended(count):
    numbers = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    series = DeviceSeries()
    for number in numbers:
        series.append(number)
    assert len(series) == count
    assert series.values().tolist() == numbers.tolist()


@pytest.mark.parametrize("before", [0, 7])
def test_it_goes_on_from_values(before):
    start = torch.arange(before, dtype=torch.float32)
    series = DeviceSeries(start)
    series.append(torch.tensor(0.5))
    start += 100
    assert series.values().tolist() == [*range(before), 0.5]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_numbers_keep_their_precision(dtype):
    series = DeviceSeries()
    series.append(torch.tensor(1 / 3, dtype=dtype))
    assert series.values().dtype == dtype
    assert series.values()[0] == torch.tensor(1 / 3, dtype=dtype)


def test_values_once_read_do_not_change():
    series = DeviceSeries()
    series.append(torch.tensor(1.0))
    read = series.values()
    series.append(torch.tensor(2.0))
    assert read.tolist() == [1.0]
