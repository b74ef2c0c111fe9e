"""One loop for every algorithm: steps, records, checkpoints."""
