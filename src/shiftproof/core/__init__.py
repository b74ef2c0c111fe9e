"""Types, search spaces, registries, seeds and errors, which all other layers use."""
