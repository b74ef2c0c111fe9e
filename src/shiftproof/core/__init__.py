"""Types, search spaces, registries, seeds and errors: what every other layer builds on."""
