"""The DomainBed protocol: which runs, and what their numbers mean."""
