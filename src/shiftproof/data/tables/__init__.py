"""Tables of the user: CSV or Parquet files, their columns, and how they are preprocessed."""
