"""The draws of a sweep combined: ensembles of their predictions, and averages of their weights."""
