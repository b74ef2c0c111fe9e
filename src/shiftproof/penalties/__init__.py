"""Pure tensor maths: distances between distributions, per-sample gradients, risks."""
