"""The public functions, one per file.

The command line parses its options, calls these functions and prints their results.  The functions
print nothing: they report progress to a callback or an observer.  `shiftproof` exports them.
"""
