"""The results page: a single HTML file that needs no network.

``values`` defines the data given to the templates; ``sweeps``, ``charts`` and ``summary`` make the
sections of a sweep, ``expectation``, ``card``, ``predictions`` and ``sentences`` those of a model,
and ``shifts`` those of a diagnosis; ``render`` puts them into the templates.
"""

from shiftproof.reporting.page.expectation import HeldOut
from shiftproof.reporting.page.render import Source, results_page, tables_html

__all__ = ["HeldOut", "Source", "results_page", "tables_html"]
