"""Published datasets with their cards, one file each."""
