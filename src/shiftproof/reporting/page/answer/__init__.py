"""The page of one model with each domain held out in turn: what to expect at the next domain.

``lead`` writes the first sentence; ``card``, ``worst``, ``errors``, ``pictures``, ``far`` and
``thresholds`` make the sections; ``sections`` puts them in order.  ``evidence`` holds what `study`
collects from the data.
"""
