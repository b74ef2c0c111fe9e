"""Diagnose the shifts between the domains of a dataset, and advise what to do about them."""
