"""Categories that a model has not learnt from are named."""

import pandas as pd
import pyarrow as pa
from _internals import Column, Columns, as_table, unseen_notes

COLUMNS = Columns((Column("age", "number"), Column("pain", "category", ("", "mild", "none"))))


def test_new_values_are_named_with_their_rows():
    frame = pd.DataFrame({"age": [1.0] * 6, "pain": ["mild", "odd", "odd", "new", None, "none"]})
    assert list(unseen_notes(COLUMNS, as_table(frame, "t"))) == [
        "column 'pain' has values that the model did not learn from, in 3 rows: 'odd', 'new'; it"
        " treats them as unknown"
    ]


def test_known_and_missing_values_are_none():
    assert not list(unseen_notes(COLUMNS, pa.table({"pain": ["mild", None, "none"]})))
    assert not list(unseen_notes(COLUMNS, pa.table({"age": [1.0]})))
