"""The page of one model on domains held out in turn: it answers what to expect at the next one.

``lead`` is its first sentence; ``card``, ``worst``, ``errors``, ``pictures``, ``far`` and
``thresholds`` make the sections; ``sections`` puts them in order.  ``evidence`` is what `study`
collects from the data.
"""
