"""What shifts between the domains of a dataset, and what to do about it."""
