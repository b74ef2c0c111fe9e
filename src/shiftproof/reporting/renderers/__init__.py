"""Ways to print a `Table`, one file each."""
