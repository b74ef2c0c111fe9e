"""The results page: one file of HTML that needs no network, made from values.

``values`` is what a template is given; ``summary``, ``tables``, ``heat``, ``tracks``, ``curves``,
``shifts`` and ``provenance`` make the sections; ``render`` puts them into the templates.
"""

from shiftproof.report.page.render import Source, results_page

__all__ = ["Source", "results_page"]
