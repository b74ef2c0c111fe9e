"""What a model file tells of single rows, and of domains that were held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from shiftproof.data.input_forms import TableForm
from shiftproof.data.tables.dataset import table_dataset
from shiftproof.inference.model import TrainedModel, trained_model
from shiftproof.inference.typicality import FEWEST_IN_A_MEAN, Typicality
from shiftproof.training.config import configure
from shiftproof.training.loop import train

SITES = ("a", "b", "c")


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "site": np.repeat(SITES, 30),
            "age": rng.normal(50, 9, 90).round(1),
            "creatinine": rng.normal(1, 0.3, 90).round(3),
            "ward": rng.choice(["x", "y", "z"], 90),
            "ill": rng.choice(["no", "yes"], 90),
        }
    )
    # Only the held-out site has these wards.
    frame.loc[frame.site == "c", "ward"] = [f"secret-{n % 3}" for n in range(30)]
    return frame


def made(frame: pd.DataFrame, folder: Path) -> TrainedModel:
    dataset = table_dataset(frame, "patients", "ill", "site")
    config = configure(
        dataset, "erm", steps=3, test_domains=["c"], device="cpu", holdout=0.0,
        evaluate=["test-in"],
    )  # fmt: skip
    train(config, dataset, folder)
    return trained_model(config, dataset, folder)


def test_categories_of_a_held_out_domain_are_not_in_the_model(tmp_path: Path) -> None:
    frame = patients()
    model = made(frame, tmp_path)
    assert b"secret" not in model.to_bytes()
    assert isinstance(model.form, TableForm)
    assert [n for n in model.form.columns.feature_names if "ward" in n] == [
        "ward=x", "ward=y", "ward=z",
    ]  # fmt: skip
    # They were, and are, unknown: the same predictions as with any other unknown value.
    held_out = frame[frame.site == "c"]
    found = model.form.read(held_out)
    torch.testing.assert_close(found, model.form.read(held_out.assign(ward="never seen")))
    # The codes of an array of cells are still those of the dataset.
    dataset = table_dataset(frame, "patients", "ill", "site")
    cells = torch.cat([domain.x for domain in dataset.domains])
    torch.testing.assert_close(model.form.read(cells), model.form.read(frame))


def test_a_missing_cell_is_not_a_value_that_was_left_out(tmp_path: Path) -> None:
    frame = patients()
    model = made(frame, tmp_path)
    for empty in ("", None, np.nan):
        cells = model.form.cells(frame.head(3).assign(ward=empty))
        assert cells[:, 2].isnan().all()


@pytest.mark.parametrize("others", [0, 5, 12])
def test_no_mean_is_that_of_a_few_rows(others: int) -> None:
    """One patient of 77 years with a creatinine of 4.321, and other small domains."""
    rng = torch.Generator().manual_seed(0)
    domains = {
        "one": torch.tensor([[77.0, 4.321]]),
        "large": torch.randn(50, 2, generator=rng),
        "larger": torch.randn(60, 2, generator=rng),
    }
    domains |= {f"few {n}": torch.randn(1, 2, generator=rng) for n in range(others)}
    found = Typicality.fit(domains, {"large": domains["large"]})
    few = 1 + others
    assert len(found.means) == (3 if few >= FEWEST_IN_A_MEAN else 2)
    for row in torch.cat(list(domains.values())).double():
        assert not (found.means - row).abs().amin(dim=1).lt(1e-6).any()
    # The mean of each group is that of at least ten rows.
    small = torch.cat([r for r in domains.values() if len(r) == 1]).double()
    if few >= FEWEST_IN_A_MEAN:
        torch.testing.assert_close(found.means[-1], small.mean(dim=0))
    else:
        joined = torch.cat([domains["large"].double(), small])
        torch.testing.assert_close(found.means[0], joined.mean(dim=0))
    torch.testing.assert_close(found.distances, found.distances.sort().values)
