"""Combine the draws of a sweep: ensembles of their predictions, and averages of their weights."""
