"""The DomainBed protocol: planning, running and aggregating sweeps."""
