"""DomainBed: its names and its log files."""
