"""Categories that a model has not learnt from are named."""

import pandas as pd
from _internals import Column, Columns, unseen_notes

COLUMNS = Columns((Column("age", "number"), Column("pain", "category", ("", "mild", "none"))))


def test_new_values_are_named_with_their_rows():
    frame = pd.DataFrame({"age": [1.0] * 6, "pain": ["mild", "odd", "odd", "new", None, "none"]})
    assert list(unseen_notes(COLUMNS, frame)) == [
        "column 'pain' has values that the model did not learn from, in 3 rows: 'odd', 'new'; it"
        " treats them as unknown"
    ]


def test_known_and_missing_values_are_none():
    assert not list(unseen_notes(COLUMNS, pd.DataFrame({"pain": ["mild", None, "none"]})))
    assert not list(unseen_notes(COLUMNS, pd.DataFrame({"age": [1.0]})))
