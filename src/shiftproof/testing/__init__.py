"""Checks that third parties can run on their own algorithms too."""
