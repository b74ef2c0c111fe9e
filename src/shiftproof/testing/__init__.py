"""Checks for algorithms, including those of third parties."""
