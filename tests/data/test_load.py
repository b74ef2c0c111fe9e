import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from _internals import DataRequest, InvalidValue, SampleRequest, form_of

from shiftproof import load


def test_a_request_names_columns_and_options(tmp_path):
    path = tmp_path / "t.csv"
    rows = [f"{d},{n},{n % 3},{n % 2}" for d in "xyz" for n in range(6)]
    path.write_text("\n".join(["where,a,b,sick", *rows]) + "\n")
    plain = DataRequest(str(path), label="sick", domain="where")
    options = {"missing_indicators": "true"}
    dataset = plain.but(options=options, drop=("a",), categorical=("b",)).load(seed=0)
    assert [c.name for c in dataset.preparation.columns] == ["b"]
    assert dataset.preparation.columns[0].kind == "category"
    assert plain.load(seed=0).fingerprint != dataset.fingerprint


def test_options_of_a_dataset_by_name():
    small = DataRequest("colored-mnist-irm", options={"per_domain": "50"})
    assert [len(domain) for domain in small.load(seed=1).domains] == [50, 50, 50]
    assert small.load(1).fingerprint != small.load(2).fingerprint
    with pytest.raises(InvalidValue, match="`image` is for tables and manifests"):
        DataRequest("colored-mnist-irm", image="x").load(seed=0)


@pytest.mark.parametrize("library", [pa.table, pd.DataFrame, lambda d: nw.from_native(pa.table(d))])
def test_frames_of_any_library_are_the_same_data(library):
    columns = {"age": [1.5, None, 3.0, 4.0], "label": list("abab"), "domain": [1, 1, 2, 2]}
    dataset = load(library(columns))
    assert dataset.domain_names == ("1", "2")
    assert dataset.fingerprint == load(pd.DataFrame(columns)).fingerprint


def test_copied_whole_numbers_stay_whole_beside_missing_ones(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("age,label,domain,id\n1,a,x,7\n2,b,x,\n3,a,y,8\n4,b,y,9\n")
    dataset = load(path, drop=["id"])
    rows = np.concatenate([domain.rows() for domain in dataset.domains])
    form = form_of(dataset, dataset.preparation.fit(rows))
    (samples,) = SampleRequest(str(path), keep=("id",)).read(form, 0)
    copied = pd.DataFrame(samples.names)["id"]
    assert copied.isna().tolist() == [False, True, False, False]
    assert [str(value) for value in copied.dropna()] == ["7", "8", "9"]
