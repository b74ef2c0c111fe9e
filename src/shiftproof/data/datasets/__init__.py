"""Published datasets, one file each, with its card."""
