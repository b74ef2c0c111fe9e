"""Statistics on arrays: each method once, on NumPy, SciPy and scikit-learn, without torch."""
