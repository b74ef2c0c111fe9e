"""Ways to get jobs done: ``local`` processes."""
