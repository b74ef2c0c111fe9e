"""Reproducing the paper: the runs for its tables and figures, and a comparison of the results."""
