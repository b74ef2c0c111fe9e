"""The results page: a single HTML file that needs no network.

``values`` defines the data given to the templates; ``expectation``, ``reliability``, ``summary``,
``tables``, ``heat``, ``dot_plots``, ``curves``, ``shifts`` and ``provenance`` make the sections;
``render`` puts them into the templates.
"""

from shiftproof.reporting.page.expectation import HeldOut
from shiftproof.reporting.page.render import Source, results_page, tables_html

__all__ = ["HeldOut", "Source", "results_page", "tables_html"]
