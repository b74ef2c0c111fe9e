"""Renderers of a `Table`, one per module."""
