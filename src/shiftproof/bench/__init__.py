"""Speed and memory, as ratios of two sides measured in turn within one process."""
