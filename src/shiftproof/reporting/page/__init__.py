"""The results page: one file of HTML that needs no network, made from values.

``values`` is what a template is given; ``expectation``, ``reliability``, ``summary``, ``tables``,
``heat``, ``dot_plots``, ``curves``, ``shifts`` and ``provenance`` make the sections; ``render``
puts them into the templates.
"""

from shiftproof.reporting.page.expectation import HeldOut
from shiftproof.reporting.page.render import Source, results_page, tables_html

__all__ = ["HeldOut", "Source", "results_page", "tables_html"]
