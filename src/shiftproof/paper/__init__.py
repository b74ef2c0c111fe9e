"""Reproducing the paper: what to run for its tables and figures, and how ours compare."""
