"""The paper's tables and figures, made again: what to run, and how it compares."""
