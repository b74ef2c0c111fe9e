"""Everything that can be trained."""
