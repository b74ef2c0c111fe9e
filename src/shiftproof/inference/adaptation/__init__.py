"""Adaptation: what the rows of a new site, without labels or with a few, can correct."""
