"""Render results as text, tables, pages and pictures."""
