"""Adaptation of a model to a new site, from its rows without labels or with a few labels."""
