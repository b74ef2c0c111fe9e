"""Mutual information with the domain: estimated from samples, and what the paper bounds by it."""
