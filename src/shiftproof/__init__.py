"""Shiftproof: train on several domains, hold up on one never seen, and find out what shifts."""

__version__ = "0.1.0"
