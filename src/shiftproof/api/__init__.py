"""What a program calls: one function a verb, one file each.

The command line parses its options, calls these functions and prints their results.  They print
nothing themselves: progress goes to a callable or an observer.  The package `shiftproof` exports
them, so `shiftproof.train` is `shiftproof.api.train`.
"""

# Each import also replaces the attribute of the same name, which Python set to the submodule.
from shiftproof.api.diagnose import diagnose
from shiftproof.api.load import load
from shiftproof.api.load_model import load_model
from shiftproof.api.train import train
from shiftproof.api.train_each import train_each

__all__ = ["diagnose", "load", "load_model", "train", "train_each"]
