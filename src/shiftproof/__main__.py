"""``python -m shiftproof`` is the ``shiftproof`` command."""

from shiftproof.cli import main

if __name__ == "__main__":
    main()
